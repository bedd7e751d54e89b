-- Delete the rows of {table} of jobs that have none in {home}. An id is never given to another job, so nothing can come between.
-- Leans on the primary keys of {table} and {home}. Answers the jobs.
with dropped as (
  delete from {schema}.{table} t
   where t.job = any(%(jobs)s::bigint[])
     and not exists (select from {schema}.{home} h where h.{key} = t.job offset 0)
  returning t.job
)
select distinct job from dropped
