-- Look at up to %(limit)s rows of {table} behind the job %(after)s, the rows of a job together: there must be a row of {home} for it.
-- Locks nothing; leans on the primary keys of {table} and {home}.
-- Always answers a row: how many were looked at, and the job of the last of them.
with range as materialized (
  select job from {schema}.{table} where job > %(after)s::bigint order by job limit %(limit)s::int
), found as (
  select distinct job, 'leftover_{table}' as damage
    from range r
   where not exists (select from {schema}.{home} h where h.{key} = r.job offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(job) as last from range) seen
  left join found f on true
 order by f.job
