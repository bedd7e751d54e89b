-- Let claims take from a queue again, wake its workers, and tell the leader, since its jobs may be parked.
-- Answers the queue if it was paused.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), resumed as (
  update {schema}.queue
     set paused_at = null, paused_until = null, pause_note = null
   where name = %(queue)s::text and paused_at is not null
  returning name
)
select name
  from resumed,
       lateral (select pg_notify('{schema_name}.ready', name), pg_notify('{schema_name}.leader', 'unpark')) as everyone
