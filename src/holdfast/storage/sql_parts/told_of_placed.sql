-- Wake the workers of the queues in {of} (queue, segment), and the leader for those at the gate. The closing select reads `told`,
-- or no notification would be sent.
told as materialized (
  select pg_notify('{schema_name}.ready', queue) from (select distinct queue from {of} where segment <> 8) q
  union all
  select pg_notify('{schema_name}.gate', '') where exists (select from {of} where segment = 8)
)
