-- End runs as decided, one element of each array for each run; answers what became of each of them.
-- The fence is (worker, job, run) still in lease: locked in ascending order, waiting for whoever holds it.
-- A run that is not there any more was settled before (the ledger has it: already) or taken away by a rescue
-- (lost); so is one whose job is gone. One that somebody ended while we waited is moving: what became of it is
-- told to a new statement.
-- A cancel request turns retry, snooze and release into cancelled; a passed deadline turns them into expired.
-- Keys that somebody has locked are left behind: enqueue takes such a key over, and prune sweeps it.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select * from unnest(
    %(workers)s::bigint[], %(jobs)s::bigint[], %(runs)s::bigint[], %(outcomes)s::{schema}.outcome[],
    %(delays)s::interval[], %(errors)s::text[], %(results)s::text[], %(flags)s::text[]
  ) as asked (worker, job, run, outcome, delay, error, result, flag)
   order by job
), fenced as materialized (
  select a.worker, a.job, a.run, a.outcome, a.delay, a.error, a.result, a.flag,
         l.attempt, l.started_at, l.cancel_requested_at
    from asked a
   cross join lateral (
     select attempt, started_at, cancel_requested_at
       from {schema}.lease
      where worker = a.worker and job = a.job and run = a.run
        for update) l
), gone as (
  -- By key: a lease that a cancel request changed while we waited has a place that our snapshot does not show.
  delete from {schema}.lease
   where worker = any(array(select distinct worker from fenced)) and job = any(array(select job from fenced))
), ended as materialized (
  select f.worker, f.job, f.run, f.attempt, f.started_at, f.delay, f.error, f.result, f.flag,
         j.kind, j.queue, j.deadline_at, j.unique_key, j.keep,
         case when f.outcome not in ('retried', 'snoozed', 'released') then f.outcome
              when f.cancel_requested_at is not null then 'cancelled'
              when j.deadline_at <= clock.now then 'expired'
              else f.outcome
         end as outcome
    from clock, fenced f
   cross join lateral (
     select kind, queue, deadline_at, unique_key, keep from {schema}.job where id = f.job offset 0) j
), written as (
  insert into {schema}.ledger
         (job, run, started_at, finished_at, keep_until, worker, outcome, attempt, is_final, queue, kind, flag, error, result)
  select job, run, started_at, clock.now,
         case when outcome in ('retried', 'snoozed', 'released') then null
              else clock.now + coalesce(keep, case outcome when 'succeeded' then %(keep_succeeded)s::interval
                                                           when 'failed' then %(keep_dead)s::interval
                                                           else %(keep_other)s::interval end)
         end,
         worker, outcome, attempt, outcome not in ('retried', 'snoozed', 'released'), queue, kind, flag,
         error::jsonb, result::jsonb
    from ended cross join clock
), later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt)
  select job, clock.now + delay, deadline_at, attempt - (outcome = 'snoozed')::int
    from ended cross join clock
   where outcome in ('retried', 'snoozed')
), again as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, deadline_at)
  select e.queue, j.priority, e.job, ring.current, e.kind, e.attempt - 1, e.deadline_at
    from ended e
   cross join {schema}.ring
   -- Locked so that it is the newest: it may have been changed while we waited for the lease.
   cross join lateral (select priority from {schema}.job where id = e.job for share) j
   where e.outcome = 'released'
), died as (
  insert into {schema}.dead (job, run, died_at)
  select job, run, clock.now
    from ended cross join clock
   where outcome = 'failed' and keep is distinct from interval '0'
), freed as (
  delete from {schema}.unique_key
   where job = any(array(
           select e.job
             from ended e
            cross join lateral (
              select from {schema}.unique_key
               where queue = e.queue and key = e.unique_key and job = e.job
                 for update skip locked) k
            where e.unique_key is not null and e.outcome not in ('retried', 'snoozed', 'released')))
), unkept as materialized (
  select job from ended where keep = interval '0' and outcome not in ('retried', 'snoozed', 'released')
), forgotten as (
  delete from {schema}.job where id = any(array(select job from unkept))
), unsaved as (
  delete from {schema}.saved where job = any(array(select job from unkept))
), counted as (
  insert into {schema}.tally (minute, outcome, queue, kind, runs, run_time)
  select date_trunc('minute', clock.now), outcome, queue, kind, count(*), sum(clock.now - started_at)
    from ended cross join clock
   group by 1, 2, 3, 4
)
select job, run, 'settled' as answer, outcome::text from ended
union all
select a.job, a.run,
       case when exists (select from {schema}.ledger l where l.job = a.job and l.run = a.run
                             and coalesce(l.error ->> 'code', '') not in ('lease_lost', 'stale_timeout'))
            then 'already'
            when a.run not in (select run from fenced)
             and exists (select from {schema}.lease l where l.worker = a.worker and l.job = a.job and l.run = a.run)
            then 'moving'
            else 'lost' end,
       null
  from asked a
 where a.run not in (select run from ended)
