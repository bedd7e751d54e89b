-- Write the dead letters that are missing: of jobs that failed for good. Their group of failures is not known here.
-- Locks the ends, so that none is pruned meanwhile. Leans on the primary keys of ledger and dead. Answers the jobs.
with failed as materialized (
  select job, run, finished_at
    from {schema}.ledger
   where job = any(%(jobs)s::bigint[]) and is_final::int = 1 and outcome = 'failed'
   order by job
     for share skip locked
)
insert into {schema}.dead (job, run, died_at)
select job, run, finished_at from failed
on conflict (job) do nothing
returning job
