-- Look at up to %(limit)s leases behind the job %(after)s: each must belong to a worker. Rescue asks by worker, so nobody
-- would ever take over the run of a worker whose row is gone.
-- Locks nothing; reads lease once, of which there are as many as jobs that run.
-- Always answers a row: how many were looked at, and the job of the last of them.
with range as materialized (
  select job, worker from {schema}.lease where job > %(after)s::bigint order by job limit %(limit)s::int
), found as (
  select distinct job, 'lease_of_no_worker' as damage
    from range r
   where not exists (select from {schema}.worker w where w.id = r.worker)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(job) as last from range) seen
  left join found f on true
 order by f.job
