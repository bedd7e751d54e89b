-- Move state machines on, one element of each array per run: the step that has ended is marked done, and the job continues
-- with the next one, with all its attempts (attempt 0), in ready or, after a delay, in scheduled.
-- The fence is (worker, job, run) in lease, locked first, in ascending order, and deleted. When a machine returns to a step,
-- the row replaces that of the earlier visit: one row per step, however often a machine repeats it.
-- Permits of limits are given back between steps, but for those with hold = 'job'.
-- The ledger has a row for each move, not final, with the names of both steps as its result.
-- Answers moved, stop (the machine must end: cancelled, or past its deadline; nothing was written) or lost.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select * from unnest(
    %(workers)s::bigint[], %(jobs)s::bigint[], %(runs)s::bigint[], %(names)s::text[], %(places)s::int[],
    %(fields)s::text[], %(next_names)s::text[], %(next_fields)s::text[], %(delays)s::interval[]
  ) as a (worker, job, run, name, place, fields, next_name, next_fields, delay)
), held as materialized (
  select a.*, l.lease, l.attempt, l.ready_at, l.started_at, j.kind, j.queue, j.deadline_at, j.limits, j.limit_keys,
         l.cancel_requested_at is not null or coalesce(j.deadline_at <= clock.now, false) as is_to_end
    from clock, (select * from asked order by job) a
   cross join lateral (
     select ctid as lease, attempt, ready_at, started_at, cancel_requested_at from {schema}.lease
      where worker = a.worker and job = a.job and run = a.run
        for update) l
   cross join lateral (select kind, queue, deadline_at, limits, limit_keys from {schema}.job where id = a.job offset 0) j
), moving as materialized (
  select *, {part kept_permits limits=limits} as kept, 2 as held from held where not is_to_end
), gone as (
  delete from {schema}.lease l using moving m where l.ctid = m.lease
), written as (
  insert into {schema}.ledger
         (job, run, ready_at, started_at, finished_at, worker, outcome, attempt, is_final, queue, kind, result)
  select job, run, ready_at, started_at, clock.now, worker, 'snoozed', attempt, false, queue, kind,
         jsonb_build_object('step', name, 'next', next_name)
    from moving, clock
), kept as (
  insert into {schema}.checkpoint as c (job, name, kind, place, written_at, is_done, value)
  select job, name, 'state', place, clock.now, true, fields::jsonb from moving, clock where name <> next_name
  union all
  select job, next_name, 'state', place + 1, clock.now, false, next_fields::jsonb from moving, clock
  on conflict (job, name) do update
     set place = excluded.place, written_at = excluded.written_at, is_done = excluded.is_done, value = excluded.value
), later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt, holds)
  select job, clock.now + delay, deadline_at, 0, case when kept > 0 then limits[:kept] end from moving, clock where delay > interval '0'
), going_on as materialized (
  select m.queue, j.priority, m.job, m.kind, 0 as attempt, clock.now as ready_at, m.deadline_at, m.limits, m.limit_keys,
         case when m.kept > 0 then m.limits[:m.kept] end as holds
    from clock, moving m
   -- Locked so that it is the newest: it may have been changed while we waited for the lease.
   cross join lateral (select priority from {schema}.job where id = m.job for share) j
   where coalesce(m.delay, interval '0') <= interval '0'
), {part placed of=going_on}, {part given_back of=moving}, {part counted runs=moving outcome='snoozed'}
select a.run,
       case when h.run is null then 'lost' when h.is_to_end then 'stop' else 'moved' end as answer
  from asked a
  left join held h on h.run = a.run
