-- Look at up to %(limit)s flows in waiting behind the job %(after)s: each must wait for something.
-- Locks nothing; leans on the primary keys of waiting and wait.
-- Always answers a row: how many were looked at, and the last of them.
with range as materialized (
  select job from {schema}.waiting where job > %(after)s::bigint order by job limit %(limit)s::int
), found as (
  select job, 'waits_for_nothing' as damage
    from range r
   where not exists (select from {schema}.wait w where w.job = r.job offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(job) as last from range) seen
  left join found f on true
 order by f.job
