-- End one run that succeeded, as complete_one does, if its claim said that the job is plain: it had no unique key, no `keep` and
-- no parent, so that all that is written of its end is in the lease. Only a flow may have gone to wait for it since.
-- Half of complete_one's cost: most of it is to open and close the nodes of a plan, not to read or write.
-- Fence and order of locks are settle's; so are the answers, filled with sql_parts/unsettled_one.sql; for a commit that is sent
-- along with this statement, what is not settled fails.
-- Leans on the primary keys of lease and job, and on checkpoint_child.
with gone as (
  delete from {schema}.lease
   where worker = %(worker)s::bigint and job = %(job)s::bigint and run = %(run)s::bigint
  returning worker, job, run, attempt, ready_at, started_at, queue, kind,
            coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), written as (
  insert into {schema}.ledger
         (job, run, ready_at, started_at, finished_at, keep_until, worker, outcome, attempt, is_final, queue, kind, flag,
          result)
  select job, run, ready_at, started_at, now, now + %(keep_succeeded)s::interval,
         worker, 'succeeded', attempt, true, queue, kind, %(flag)s::text, %(result)s::text::jsonb
    from gone
), woken as (
  insert into {schema}.wakeup (job, child)
  select parent, id
    from {schema}.job
   where exists (select from {schema}.checkpoint where child = %(job)s::bigint and not is_done)
     and id = (select job from gone) and parent is not null
  returning pg_notify('{schema_name}.wake', '')
), counted as (
  insert into {schema}.tally
         (minute, outcome, queue, kind, runs, run_time, began, wait_time, shares, wait_buckets, run_buckets)
  select date_trunc('minute', clock.now), 'succeeded', queue, kind, 1, make_interval(secs => took), {part began},
         make_interval(secs => waited), array[1], array[{part bucket seconds=waited}], array[{part bucket seconds=took}]
    from gone clock, lateral (select {part lengths_of_run}) l
)
select case when exists (select from gone) then 'settled'
            {otherwise} end as answer
