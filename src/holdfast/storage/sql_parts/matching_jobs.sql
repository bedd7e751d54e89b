-- The page of a list: of the jobs in `scanned`, newest first, up to %(limit)s that match every condition that is not NULL, each with its
-- state. `scanned` says of each job whether it is still wanted.
-- The places that a job can be in are probed by their keys, in the order that saves most probes; the lease for each worker in turn,
-- as its key begins with the worker.
page as materialized (
  select e.job, j.kind, j.queue, coalesce(r.priority, j.priority) as priority, d.state,
         coalesce(g.attempt, r.attempt, s.attempt, case when w.job is not null then 0::smallint end, f.attempt, 0::smallint) as attempt,
         j.max_attempts, j.created_at, s.run_at, coalesce(g.ready_at, r.ready_at) as ready_at,
         coalesce(g.started_at, f.started_at) as started_at, case when f.is_final then f.finished_at end as finished_at,
         coalesce(g.worker, f.worker) as worker, r.segment = 9 as is_parked, g.cancel_requested_at, j.deadline_at, j.tags, j.parent,
         case when octet_length(j.args::text) <= %(args_limit)s::int then j.args::text end as args,
         octet_length(j.args::text) as args_size,
         case when g.job is null then f.error ->> 'type' end as error_type,
         case when g.job is null then left(f.error ->> 'message', 501) end as error_message,
         case when g.job is null then f.error ->> 'code' end as error_code,
         case when f.is_final then f.flag end as flag, r.limit_name, r.limit_key
    from clock, (select job from scanned where is_wanted order by job desc offset 0) e
   cross join lateral (
     select kind, queue, priority, max_attempts, created_at, deadline_at, tags, parent, args
       from {schema}.job
      where id = e.job
        and (%(kinds)s::text[] is null or kind = any(%(kinds)s::text[]))
        and (%(queues)s::text[] is null or queue = any(%(queues)s::text[]))
        and (%(tags)s::text[] is null or tags @> %(tags)s::text[])
        and priority between coalesce(%(priority_from)s::int, 0) and coalesce(%(priority_until)s::int, 32767)
        and created_at >= coalesce(greatest(%(created_from)s::timestamptz, clock.now - %(created_within)s::interval), '-infinity')
        and created_at <= coalesce(least(%(created_until)s::timestamptz, clock.now - %(created_before)s::interval), 'infinity')
        and {part args_match args=args kind=job.kind}
     offset 0) j
    left join lateral (
     select outcome, is_final, attempt, started_at, finished_at, worker, error, flag from {schema}.ledger
      where job = e.job order by run desc limit 1) f on true
    left join lateral (
     select run_at, attempt from {schema}.scheduled where job = e.job and f.is_final is not true offset 0) s on true
    left join lateral (
     select job from {schema}.waiting where job = e.job and f.is_final is not true and s.run_at is null offset 0) w on true
    left join lateral (
     select l.job, l.attempt, l.ready_at, l.started_at, l.worker, l.cancel_requested_at
       from {schema}.worker k
      cross join lateral (
        select job, attempt, ready_at, started_at, worker, cancel_requested_at from {schema}.lease
         where worker = k.id and job = e.job offset 0) l
      where f.is_final is not true and s.run_at is null and w.job is null
      limit 1) g on true
    left join lateral (
     -- For each priority: before Postgres 17 an array of them may become a filter over the whole queue.
     select o.priority, o.attempt, o.ready_at, o.segment, o.limit_name, o.limit_key
       from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
      cross join lateral (
        select priority, attempt, ready_at, segment, limit_name, limit_key from {schema}.ready
         where queue = j.queue and priority = level.priority and job = e.job offset 0) o
      where f.is_final is not true and s.run_at is null and w.job is null and g.job is null
      limit 1) r on true
   cross join lateral (
     select case when f.is_final then f.outcome::text
                 when s.run_at is not null then 'scheduled'
                 when w.job is not null then 'waiting'
                 when g.job is not null then 'running'
                 when r.segment = 8 then 'gated'
                 when r.segment is not null then 'ready'
                 else 'lost' end as state) d
   where (%(states)s::text[] is null
          or d.state = any(%(states)s::text[])
          or d.state = 'scheduled' and s.attempt > 0 and 'retrying' = any(%(states)s::text[]))
     and (%(workers)s::bigint[] is null or coalesce(g.worker, f.worker) = any(%(workers)s::bigint[]))
     and coalesce(g.attempt, r.attempt, s.attempt, case when w.job is not null then 0::smallint end, f.attempt, 0::smallint)
           between coalesce(%(attempt_from)s::int, 0) and coalesce(%(attempt_until)s::int, 32767)
     and (not %(is_finished)s::boolean
          or f.is_final
             and f.finished_at >= coalesce(greatest(%(finished_from)s::timestamptz, clock.now - %(finished_within)s::interval), '-infinity')
             and f.finished_at <= coalesce(least(%(finished_until)s::timestamptz, clock.now - %(finished_before)s::interval), 'infinity'))
     and (%(failures)s::text[] is null or d.state = 'failed' and f.error ->> 'fingerprint' = any(%(failures)s::text[]))
     and (%(error_patterns)s::text[] is null or g.job is null and {part error_holds error=f.error})
   order by e.job desc
   limit %(limit)s::int
)
