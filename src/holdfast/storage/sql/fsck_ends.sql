-- Look at the runs of up to %(limit)s rows of the ledger behind the job %(after)s, all runs of a job together: a job ends once, and one
-- that failed for good is among the dead letters.
-- Locks nothing; leans on the primary keys of ledger and dead.
-- Always answers a row: how many were looked at, and the last job among them.
with until as materialized (
  select max(job) as job
    from (select job from {schema}.ledger where job > %(after)s::bigint order by job, run limit %(limit)s::int) r
), range as materialized (
  select job, count(*) as runs, count(*) filter (where is_final) as ends,
         bool_or(is_final and outcome = 'failed') as has_failed
    from {schema}.ledger
   where job > %(after)s::bigint and job <= (select job from until)
   group by job
), found as (
  select job, 'ended_twice' as damage from range where ends > 1
  union all
  select job, 'no_dead_letter'
    from range r
   where has_failed and ends = 1 and not exists (select from {schema}.dead d where d.job = r.job offset 0)
     and exists (select from {schema}.job j where j.id = r.job offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select coalesce(sum(runs), 0)::int as looked, max(job) as last from range) seen
  left join found f on true
 order by f.job
