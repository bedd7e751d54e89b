-- Move up to %(limit)s rows that no worker can take (a paused queue, a kind that no live worker knows there) from a
-- segment out of the way of every claim. Nothing is moved while no worker is alive: they will be back.
-- Rows are deleted and inserted again; locked ones are skipped. Answers how many were moved.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), served as materialized (
  select distinct q.queue, k.kind
    from {schema}.worker w
   cross join unnest(w.queues) as q (queue)
   cross join unnest(w.kinds) as k (kind)
   where w.lost_at is null and q.queue is not null and k.kind is not null
     and not exists (
           select from {schema}.queue s, clock
            where s.name = q.queue and s.paused_at is not null
              and (s.paused_until is null or s.paused_until > clock.now))
), picked as materialized (
  select ctid as place
    from {schema}.ready_{segment}
   where ctid >= '(0,0)' and (queue, kind) not in (select queue, kind from served)
     and exists (select from {schema}.worker where lost_at is null)
   limit %(limit)s::int
     for update skip locked
), taken as (
  delete from {schema}.ready_{segment} r using picked p where r.ctid = p.place
  returning r.queue, r.priority, r.job, r.kind, r.attempt, r.ready_at, r.deadline_at
), placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
  select queue, priority, job, 9, kind, attempt, ready_at, deadline_at from taken
  on conflict do nothing
)
select count(*)::int from taken
