-- Look at up to %(limit)s rows of the ledger behind the job %(after)s, the rows of a job together: there must be a job for it. A job that is kept
-- for no time is deleted at its end, and the leader deletes its row soon after: only rows that it has left for an hour count.
-- Locks nothing; leans on the primary keys of ledger and job.
-- Always answers a row: how many were looked at, and the job of the last of them.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '1 hour' as then
), range as materialized (
  select job, keep_until from {schema}.ledger where job > %(after)s::bigint order by job, run limit %(limit)s::int
), found as (
  select distinct job, 'leftover_ledger' as damage
    from range r, clock
   where (r.keep_until is null or r.keep_until < clock.then)
     and not exists (select from {schema}.job j where j.id = r.job offset 0)
     and not exists (select from {schema}.ledger l where l.job = r.job and l.keep_until >= clock.then offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(job) as last from range) seen
  left join found f on true
 order by f.job
