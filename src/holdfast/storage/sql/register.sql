-- A worker begins: answers its id. Tells the leader, since jobs may be parked that it knows. If it goes on under a new id, what
-- operators asked of it under the id before, %(previous)s, holds for this one.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), begun as (
  insert into {schema}.worker (host, pid, version, queues, kinds, hears, slots, queue_slots, activity, started_at, beat_at, expires_at)
  select %(host)s::text, %(pid)s::int, %(version)s::text, %(queues)s::text[], %(kinds)s::text[], %(hears)s::text::jsonb, %(slots)s::int,
         %(queue_slots)s::int[], %(activity)s::text,
         now, now, now + %(lease)s::interval
    from clock
  returning id
), carried as (
  insert into {schema}.worker_request (worker, asked_at, activity, grace, by, reason, slots)
  select b.id, r.asked_at, r.activity, r.grace, r.by, r.reason, r.slots
    from begun b, {schema}.worker_request r
   where r.worker = %(previous)s::bigint
)
select id from begun, (select pg_notify('{schema_name}.leader', 'unpark')) as everyone
