-- What the database says of itself: its newest migration, the oldest code that it serves, and its first migration.
-- Needs usage of the schema and select on this one table; locks nothing; always one row.
select coalesce(max(version), 0), coalesce(max(min_code), 0), max(name) filter (where version = 1) as base
  from {schema}.migration
