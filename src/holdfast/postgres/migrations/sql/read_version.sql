-- What the database says of itself: its newest migration, and the oldest code that it serves.
-- Needs usage of the schema and select on this one table; locks nothing; always one row.
select coalesce(max(version), 0), coalesce(max(min_code), 0) from {schema}.migration
