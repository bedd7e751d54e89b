-- Wake the workers of the queues in {of} (queue). The closing select reads `told`, or no notification would be sent.
told as materialized (
  select pg_notify('{schema_name}.ready', queue) from (select distinct queue from {of}) q
)
