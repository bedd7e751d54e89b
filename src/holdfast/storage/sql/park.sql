-- Move up to %(limit)s rows that no worker can take (a paused queue, a kind that no live worker knows there) from a
-- segment, or from the gate, out of the way of every claim. Those with limits give their permits back, and come to the gate when they
-- can be taken again. Nothing is moved while no worker is alive: they will be back.
-- With %(only_limited)s only those with limits. Rows are deleted and inserted again; locked ones are skipped. Answers how many were moved.
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
     and (not %(only_limited)s::boolean
          or exists (select from {schema}.job j where j.id = ready_{segment}.job and j.limits is not null offset 0))
   limit %(limit)s::int
     for update skip locked
), taken as (
  delete from {schema}.ready_{segment} r using picked p where r.ctid = p.place
  returning r.queue, r.priority, r.job, r.segment, r.kind, r.attempt, r.ready_at, r.deadline_at, r.limit_name, null::text[] as holds
), left_by as materialized (
  select j.limits, j.limit_keys, 0 as kept, {part held_permits place=t limits=j.limits} as held
    from taken t
   cross join lateral (select limits, limit_keys from {schema}.job where id = t.job offset 0) j
   where j.limits is not null
), {part given_back of=left_by}, placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
  select queue, priority, job, 9, kind, attempt, ready_at, deadline_at from taken
  on conflict do nothing
)
select count(*)::int from taken
