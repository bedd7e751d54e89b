-- What sql_parts/handed_on.sql needs of a job, in a select from the table.
, limits, limit_keys, priority
