-- Write events, in the order given, each with a wake-up for the flows that wait for it. Locks nothing of others', so that
-- it fits into any transaction of a caller. With %(notify)s the leader is notified.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), emitted as (
  insert into {schema}.event (emitted_at, keep_until, key, payload)
  select clock.now, clock.now + %(keep)s::interval, e.key, e.payload::jsonb
    from clock, unnest(%(keys)s::text[], %(payloads)s::text[]) with ordinality as e (key, payload, position)
   order by e.position
  returning id
), woken as (
  insert into {schema}.wakeup (key) select distinct key from unnest(%(keys)s::text[]) as k (key)
), told as materialized (
  select pg_notify('{schema_name}.wake', '') where %(notify)s::boolean
)
select id from emitted, (select count(*) from told) as everyone
