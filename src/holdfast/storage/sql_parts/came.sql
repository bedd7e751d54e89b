-- A knock for each key of a limit at whose gate somebody in {of} (segment, limit_name, limit_key, priority, job) has come: where to
-- look for them.
came as (
  insert into {schema}.knock (limit_name, key, given, priority, job)
  select limit_name, limit_key, 0, min(priority), min(job) from {of} where segment = 8 group by limit_name, limit_key
)
