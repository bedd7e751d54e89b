-- Queues by name, up to %(limit)s behind %(after)s, or the one that is named by %(name)s: every queue that is paused, that a
-- live worker serves, or that has jobs: waiting, running, or among the next 1,000 delayed ones. How many jobs wait is counted
-- up to %(cap)s, and of the oldest of them it answers how long ago it was enqueued, and how long it has been due.
-- Of a pause that ends by itself it answers how long it will last. A worker that is quiet or stopping serves none.
-- Steps from one queue to the next along the primary key of ready, parked jobs included, however many jobs each has.
-- They are counted in the order of priorities, which leaves only that key to read: less to compare than with jobs, too.
-- Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), waiting (queue) as (
  (select queue from {schema}.ready
    where %(name)s::text is null and queue > coalesce(%(after)s::text, '')
    order by queue limit 1)
  union all
  select n.queue
    from waiting w
   cross join lateral (
     select queue from {schema}.ready where queue > w.queue order by queue limit 1) n
), running as materialized (
  select queue, count(*)::int as jobs from {schema}.lease where queue is not null group by queue
), delayed as materialized (
  select distinct j.queue
    from (select job from {schema}.scheduled where %(name)s::text is null order by run_at limit 1000) s
   cross join lateral (select queue from {schema}.job where id = s.job offset 0) j
), served as materialized (
  select name as queue, count(*)::int as workers
    from clock, {schema}.worker w, unnest(w.queues) as name
   where w.lost_at is null and w.expires_at > clock.now and coalesce(w.activity, 'working') = 'working'
   group by name
), paused as materialized (
  select q.name as queue, q.paused_at, q.paused_until, q.pause_note
    from clock, {schema}.queue q
   where q.paused_at is not null and (q.paused_until is null or q.paused_until > clock.now)
), named as materialized (
  select queue
    from (select queue from (select queue from waiting limit %(limit)s::int) w
          union select queue from running
          union select queue from delayed
          union select queue from served
          union select queue from paused
          union select %(name)s::text where %(name)s::text is not null) q
   where (%(name)s::text is null or queue = %(name)s::text) and queue > coalesce(%(after)s::text, '')
   order by queue
   limit %(limit)s::int
)
select n.queue, coalesce(s.workers, 0) as workers, p.paused_at, p.paused_until, p.pause_note as note,
       (select count(*) from (select from {schema}.ready r where r.queue = n.queue
                               order by r.priority limit %(cap)s::int) capped)::int as waiting,
       coalesce(g.jobs, 0) as running,
       oldest.age as oldest_age, oldest.wait as oldest_wait,
       case when isfinite(p.paused_until) then p.paused_until - clock.now end as pause_left
  from clock, named n
 cross join lateral (
   select clock.now - min(j.created_at) as age,
          clock.now - min(least(greatest(first.ready_at, timestamptz '1900-01-01 00:00:00Z'), clock.now)) as wait
     from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
    cross join lateral (select r.job, r.ready_at from {schema}.ready r
                         where r.queue = n.queue and r.priority = level.priority
                         order by r.job limit 1) first
    cross join lateral (select created_at from {schema}.job where id = first.job offset 0) j) oldest
  left join served s on s.queue = n.queue
  left join paused p on p.queue = n.queue
  left join running g on g.queue = n.queue
 order by n.queue
