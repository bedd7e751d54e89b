-- Delete the rows of {place} whose jobs are gone or have ended.
-- Locks the rows and the ends of their jobs, skipping locked ones, so that no operator lets such a job run again meanwhile.
-- Leans on the primary keys of job and ledger; ready and lease are read once, as no index has their jobs.
-- Answers the jobs.
with over as materialized (
  select a.job
    from (select distinct job from unnest(%(jobs)s::bigint[]) as a (job) order by job) a
   cross join lateral (
     select from {schema}.ledger l where l.job = a.job and l.is_final::int = 1 order by l.run desc limit 1 for share skip locked) l
  union
  select a.job
    from unnest(%(jobs)s::bigint[]) as a (job)
   where not exists (select from {schema}.job j where j.id = a.job offset 0)
), dropped as (
  delete from {schema}.{place} where job = any(array(select job from over)) returning job
)
select distinct job from dropped
