-- End one run that succeeded, as the last statement of a transaction in which its handler has written: what complete does,
-- for one run, so that it is planned and carried out in less time. It is planned on connections without our settings.
-- Fence, order of locks and the keys that are left behind are settle's; so are the answers, filled with
-- sql_parts/unsettled_one.sql; for a commit that is sent along with this statement, what is not settled fails.
-- A run whose claim said that it is plain is ended by complete_plain. The parts about limits are for a limited job: its permits are
-- handed on or given back, and whom that concerns is notified.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), gone as (
  delete from {schema}.lease
   where worker = %(worker)s::bigint and job = %(job)s::bigint and run = %(run)s::bigint
  returning worker, job, run, attempt, ready_at, started_at, queue, kind, is_plain
), alone as materialized (
  -- Most ends concern no other job. A flow may have gone to wait for a job while that ran.
  select worker, job, run, attempt, ready_at, started_at, queue, kind
    from gone
   where is_plain and kind is not null
     and not exists (select from {schema}.checkpoint where child = %(job)s::bigint and not is_done)
), ended as materialized (
  select worker, job, run, attempt, ready_at, started_at, kind, queue,
         null::text as unique_key, null::interval as keep, null::bigint as parent{part limits_of_plain}
    from alone
  union all
  select g.worker, g.job, g.run, g.attempt, g.ready_at, g.started_at, j.kind, j.queue, j.unique_key, j.keep, j.parent{part limits_of_ended}
    from gone g
   cross join lateral (select kind, queue, unique_key, keep, parent{part limits_of_job} from {schema}.job where id = g.job offset 0) j
   where not exists (select from alone)
), forgettable as materialized (
  select job, queue, unique_key, keep, parent
    from ended
   where unique_key is not null or keep is not null or parent is not null
), written as (
  insert into {schema}.ledger
         (job, run, ready_at, started_at, finished_at, keep_until, worker, outcome, attempt, is_final, queue, kind, flag,
          result)
  select job, run, ready_at, started_at, clock.now, clock.now + coalesce(keep, %(keep_succeeded)s::interval),
         worker, 'succeeded', attempt, true, queue, kind, %(flag)s::text, %(result)s::text::jsonb
    from clock, ended
), {part freed_and_forgotten jobs=forgettable}, woken as (
  insert into {schema}.wakeup (job, child) select parent, job from forgettable where parent is not null
  returning pg_notify('{schema_name}.wake', '')
), counted as (
  insert into {schema}.tally
         (minute, outcome, queue, kind, runs, run_time, began, wait_time, shares, wait_buckets, run_buckets)
  select date_trunc('minute', clock.now), 'succeeded', queue, kind, 1, make_interval(secs => took), {part began},
         make_interval(secs => waited), array[1], array[{part bucket seconds=waited}], array[{part bucket seconds=took}]
    from clock, ended, lateral (select {part lengths_of_run}) l
)
{part handed_on of=ended}
{part handed_on_told}
select case when exists (select from ended) then 'settled'
            {otherwise} end as answer
  {part everyone_told}
