-- Which queues have got jobs by sql_parts/handed_on.sql, and whether the leader has to look at a gate.
, array(select distinct queue from passed where segment <> 8) as woken, exists (select from knocked) as is_knocking
