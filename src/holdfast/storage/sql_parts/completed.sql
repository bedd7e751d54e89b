-- End runs that succeeded, of which nothing else can come: from `asked` to the leases that are gone, and from these to the
-- ledger, the keys, the waiting flows and the counters. `ended` has the runs that still held their leases. The parts
-- about limits are left out where no job has one.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select {part asked_runs},
         %(results)s::text::text[] as results, %(flags)s::text::text[] as flags
), gone as (
  delete from {schema}.lease
   where {part fence}
  returning worker, job, run, attempt, ready_at, started_at, queue, kind, is_plain
), awaited as materialized (
  -- A flow may have gone to wait for a job while that ran.
  select child from {schema}.checkpoint
   where child = any(array(select job from gone where is_plain)) and not is_done
), ended as materialized (
  select worker, job, run, attempt, ready_at, started_at, kind, queue,
         null::text as unique_key, null::interval as keep, null::bigint as parent{part limits_of_plain}
    from gone
   where is_plain and kind is not null and (job in (select child from awaited)) is not true
  union all
  select g.worker, g.job, g.run, g.attempt, g.ready_at, g.started_at, j.kind, j.queue, j.unique_key, j.keep, j.parent{part limits_of_ended}
    from gone g
   cross join lateral (select kind, queue, unique_key, keep, parent{part limits_of_job} from {schema}.job where id = g.job offset 0) j
   where (g.is_plain and g.kind is not null) is not true or g.job in (select child from awaited)
), forgettable as materialized (
  select job, queue, unique_key, keep, parent
    from ended
   where unique_key is not null or keep is not null or parent is not null
), written as (
  insert into {schema}.ledger
         (job, run, ready_at, started_at, finished_at, keep_until, worker, outcome, attempt, is_final, queue, kind, flag,
          result)
  select job, run, ready_at, started_at, clock.now, clock.now + coalesce(keep, %(keep_succeeded)s::interval),
         worker, 'succeeded', attempt, true, queue, kind,
         flags[width_bucket(run, runs)], results[width_bucket(run, runs)]::jsonb
    from asked, clock, ended
), {part freed_and_forgotten jobs=forgettable}, woken as (
  insert into {schema}.wakeup (job, child) select parent, job from forgettable where parent is not null
  returning pg_notify('{schema_name}.wake', '')
), {part counted runs=ended outcome='succeeded'}
{part handed_on of=ended}
