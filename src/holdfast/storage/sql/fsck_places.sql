-- Look at up to %(limit)s rows of {place} behind the job %(after)s: their jobs must be there, and must not have ended.
-- Locks nothing; leans on the primary keys of {place}, job and ledger. lease, as its key begins with the worker, is sorted.
-- Always answers a row: how many were looked at, and the job of the last of them.
with range as materialized (
  select job from {schema}.{place} where job > %(after)s::bigint order by job limit %(limit)s::int
), found as (
  select distinct r.job, case when not exists (select from {schema}.job j where j.id = r.job offset 0) then '{place}_of_no_job'
                              else 'ended_but_{place}' end as damage
    from range r
   where not exists (select from {schema}.job j where j.id = r.job offset 0)
      or exists (select from {schema}.ledger l where l.job = r.job and l.is_final::int = 1 offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(job) as last from range) seen
  left join found f on true
 order by f.job
