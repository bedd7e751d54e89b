-- What decides whether a job of %(kind)s in %(queue)s can run now, for the explanation of one job. Always one row.
-- Slots are those that live workers which know the kind have for the queue; of an older worker, which does not tell, all its slots.
-- Workers that are quiet or stopping could run it too, but do not: of these, the ids, and who asked the first of the quiet ones.
-- Jobs ahead of %(job)s are counted up to %(cap)s along the primary key of ready; what runs is read by the primary key of lease.
-- Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), alive as materialized (
  select w.id, w.queues, w.kinds, w.slots, w.queue_slots, w.activity from {schema}.worker w, clock where w.lost_at is null and w.expires_at > clock.now
), able as materialized (
  select id, coalesce(queue_slots[array_position(queues, %(queue)s::text)], slots) as slots
    from alive
   where %(queue)s::text = any(queues) and %(kind)s::text = any(kinds) and coalesce(activity, 'working') = 'working'
), resting as materialized (
  select id, activity from alive
   where %(queue)s::text = any(queues) and %(kind)s::text = any(kinds) and activity in ('quiet', 'stopping')
), quiet as materialized (
  select r.worker, r.asked_at, r.by, r.reason
    from resting s
   cross join lateral (select worker, asked_at, by, reason from {schema}.worker_request where worker = s.id offset 0) r
   where s.activity = 'quiet'
   order by r.asked_at
   limit 1
), busy as materialized (
  select l.kind, l.started_at
    from able a
   cross join lateral (
     select kind, started_at from {schema}.lease
      where worker = a.id and coalesce(queue, %(queue)s::text) = %(queue)s::text offset 0) l
)
select clock.now,
       (select count(*) from alive)::int as workers,
       exists (select from alive where %(queue)s::text = any(queues)) as is_queue_served,
       exists (select from alive where %(kind)s::text = any(kinds)) as is_kind_known,
       (select count(*) from able)::int as able,
       coalesce((select sum(slots) from able), 0)::int as slots,
       (select count(*) from busy)::int as busy,
       (select array_agg(kind order by jobs desc, kind)
          from (select kind, count(*) as jobs from busy group by kind order by 2 desc, 1 limit 3) most) as busy_kinds,
       (select min(started_at) from busy) as busy_since,
       q.paused_at, q.paused_until, q.pause_note,
       exists (select from {schema}.leader g where g.expires_at > clock.now) as is_led,
       (select count(*)
          from (select from {schema}.ready r
                 where r.queue = %(queue)s::text
                   and (r.priority, r.job) < (%(priority)s::smallint, %(job)s::bigint)
                 order by r.priority, r.job
                 limit %(cap)s::int) ahead)::int as ahead,
       array(select id from resting where activity = 'quiet' order by id limit 10) as quiet_workers,
       y.asked_at as quiet_at, y.by as quiet_by, y.reason as quiet_reason,
       array(select id from resting where activity = 'stopping' order by id limit 10) as stopping_workers,
       w.host, w.pid, w.expires_at, w.lost_at,
       (select k.job from {schema}.unique_key k
         where k.queue = %(queue)s::text and k.key = %(unique_key)s::text and k.job <> %(job)s::bigint) as key_holder,
       (select k.until from {schema}.unique_key k
         where k.queue = %(queue)s::text and k.key = %(unique_key)s::text and k.job = %(job)s::bigint and k.until > clock.now) as key_until,
       d.debounced_since, d.debounced_until, (select s.by from {schema}.superseded s where s.job = %(job)s::bigint) as superseded_by,
       array(select coalesce(t.key, t.name) from {schema}.wait t where t.job = %(job)s::bigint order by 1 limit 10) as waits,
       array(select c.child from {schema}.checkpoint c
              where c.job = %(job)s::bigint and not c.is_done and c.child is not null order by 1 limit 10) as children,
       (select g.until from {schema}.waiting g where g.job = %(job)s::bigint) as waits_until,
       array(select distinct name from alive, unnest(queues) as name order by 1) as queues,
       array(select distinct name
               from (select unnest(kinds) as name from alive union all select name from {schema}.kind) known order by 1) as kinds
  from clock
  left join {schema}.queue q
    on q.name = %(queue)s::text and q.paused_at is not null and (q.paused_until is null or q.paused_until > clock.now)
  left join {schema}.worker w on w.id = %(worker)s::bigint
  left join {schema}.job d on d.id = %(job)s::bigint
  left join quiet y on true
