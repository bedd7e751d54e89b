-- What sql_parts/handed_on.sql needs of a run whose job `j` was looked up: it has ended, and keeps nothing.
, j.limits, j.limit_keys, j.priority, 0 as kept, 1 as verdict
