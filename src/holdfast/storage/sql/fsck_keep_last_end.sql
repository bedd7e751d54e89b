-- Of several ends of a job, only the last one ends it.
-- Locks the ends, skipping none: they change only when a job is pruned or let run again. Leans on the primary key of ledger.
-- Answers the jobs that had another end.
with ends as materialized (
  select job, run, max(run) over (partition by job) as last
    from {schema}.ledger
   where job = any(%(jobs)s::bigint[]) and is_final::int = 1
), reopened as (
  update {schema}.ledger l
     set is_final = false, keep_until = null
    from ends e
   where l.job = e.job and l.run = e.run and e.run < e.last
  returning l.job
)
select distinct job from reopened
