-- A worker begins: answers its id. Tells the leader, since jobs may be parked that it knows.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), begun as (
  insert into {schema}.worker (host, pid, version, queues, kinds, hears, slots, queue_slots, started_at, beat_at, expires_at)
  select %(host)s::text, %(pid)s::int, %(version)s::text, %(queues)s::text[], %(kinds)s::text[], %(hears)s::text::jsonb, %(slots)s::int,
         %(queue_slots)s::int[],
         now, now, now + %(lease)s::interval
    from clock
  returning id
)
select id from begun, (select pg_notify('{schema_name}.leader', 'unpark')) as everyone
