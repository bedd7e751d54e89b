-- Look at up to %(limit)s dead letters behind the job %(after)s: each must have failed for good.
-- Locks nothing; leans on the primary keys of dead and ledger.
-- Always answers a row: how many were looked at, and the last of them.
with range as materialized (
  select job from {schema}.dead where job > %(after)s::bigint order by job limit %(limit)s::int
), found as (
  select job, 'dead_but_not_failed' as damage
    from range r
   where not exists (
           select from {schema}.ledger l where l.job = r.job and l.is_final::int = 1 and l.outcome = 'failed' offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(job) as last from range) seen
  left join found f on true
 order by f.job
