-- The wake-ups for what sql_parts/handed_on.sql did. The closing select reads `told`.
, told as materialized (
  select pg_notify('{schema_name}.ready', queue) from (select distinct queue from passed where segment <> 8) q
  union all
  select pg_notify('{schema_name}.gate', '') where exists (select from knocked)
)
