-- The runs of jobs: the one under way on the worker that is named with the job, and those that have ended since %(since)s (NULL: all), up to 100 of each
-- job. A job that ended without a run has a row too. Leans on the primary keys of lease and ledger. Locks nothing.
with asked as materialized (
  select * from unnest(%(jobs)s::bigint[], %(workers)s::bigint[]) as a (job, worker)
)
select a.job, l.run, l.attempt, l.worker, l.started_at, null::timestamptz as finished_at, null::text as outcome, false as is_final,
       null::text as flag, null::text as error_type, null::text as error_message, null::text as error_code,
       null::interval as kept
  from asked a
 cross join lateral (
   select run, attempt, worker, started_at from {schema}.lease where worker = a.worker and job = a.job offset 0) l
union all
select a.job, l.run, l.attempt, l.worker, l.started_at, l.finished_at, l.outcome, l.is_final, l.flag, l.error_type,
       left(l.error_message, 501), l.error_code, l.kept
  from asked a
 cross join lateral (
   select run, attempt, worker, started_at, finished_at, outcome::text, is_final, flag, error ->> 'type' as error_type,
          error ->> 'message' as error_message, error ->> 'code' as error_code, keep_until - finished_at as kept
     from {schema}.ledger
    where job = a.job and finished_at >= coalesce(%(since)s::timestamptz, '-infinity')
    order by run desc
    limit 100) l
