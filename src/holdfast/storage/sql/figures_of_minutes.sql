-- Figures over time from the counters of minutes, which are kept for 7 days. sql_parts/figures.sql has the contract.
{part figures ends=counter beginnings=beginning time=minute}
