-- Figures over time from the counters of hours, which are kept for 90 days. sql_parts/figures.sql has the contract.
{part figures ends=counter_hour beginnings=beginning_hour time=hour}
