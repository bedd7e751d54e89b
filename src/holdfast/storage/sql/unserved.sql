-- What waits although no live worker serves it, one row each: a (queue, kind) of waiting jobs that no live worker serves, or a
-- schedule whose kind no live worker knows (then queue is NULL). Says of each whether the queue and the kind are served by any.
-- A worker that is quiet or stopping serves nothing; is_quiet says that one could, if it were not.
-- Nothing while no worker is alive, nothing of paused queues and schedules.
-- Bounded: the first 200 queues, of each the first 20 jobs of each priority, which is where jobs stay that no worker can take
-- until they are parked, the first 1,000 parked pairs of queue and kind, and 1,000 schedules. Steps along the primary key of
-- ready and along ready_parked_kind. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), alive as materialized (
  select w.queues, w.kinds, coalesce(w.activity, 'working') = 'working' as is_serving
    from {schema}.worker w, clock where w.lost_at is null and w.expires_at > clock.now
), waiting (queue) as (
  (select queue from {schema}.ready order by queue limit 1)
  union all
  select n.queue
    from waiting w
   cross join lateral (select queue from {schema}.ready where queue > w.queue order by queue limit 1) n
), {part parked_kinds}, pairs as materialized (
  select f.queue, f.kind
    from (select queue from waiting limit 200) w
   cross join unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
   cross join lateral (
     select r.queue, r.kind from {schema}.ready r
      where r.queue = w.queue and r.priority = level.priority
      order by r.job
      limit 20) f
  union
  select queue, kind from (select queue, kind from parked limit 1000) p
), asked as (
  select null::text as schedule, p.queue, p.kind
    from pairs p, clock
   where not exists (select from {schema}.queue q
                      where q.name = p.queue and q.paused_at is not null
                        and (q.paused_until is null or q.paused_until > clock.now))
  union all
  select s.name, null, s.kind
    from (select name, kind, paused_at, paused_until from {schema}.schedule order by name limit 1000) s, clock
   where (s.paused_at is null or s.paused_until <= clock.now)
     and exists (select from {schema}.schedule_scope c
                  where c.schedule = s.name and c.gone_at is null and c.next_at is not null)
)
select a.schedule, a.queue, a.kind,
       exists (select from alive w where w.is_serving and a.queue = any(w.queues)) as is_queue_served,
       exists (select from alive w where w.is_serving and a.kind = any(w.kinds)) as is_kind_known,
       exists (select from alive w where a.queue = any(w.queues) and a.kind = any(w.kinds)) as is_quiet
  from asked a
 where exists (select from alive)
   and not exists (select from alive w
                    where (a.queue is null or w.is_serving and a.queue = any(w.queues)) and a.kind = any(w.kinds))
 order by 1 nulls first, 2, 3
 limit 100
