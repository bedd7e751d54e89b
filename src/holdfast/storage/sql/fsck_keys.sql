-- Look at up to %(limit)s unique keys behind a place in their primary key: each must be held by a job that has not ended. A settle
-- may leave one behind, which the next enqueue takes over; it does no harm, but it is no use either. One that is held for a time is
-- deleted by the leader soon after that.
-- Locks nothing; leans on the primary keys of unique_key, job and ledger.
-- Always answers a row: how many were looked at, and the place of the last of them.
with range as materialized (
  select queue, key, job, until
    from {schema}.unique_key
   where (queue, key) > (%(queue)s::text, %(key)s::text)
   order by queue, key
   limit %(limit)s::int
), found as (
  select distinct job, 'stale_key' as damage
    from range r
   where (until is null or until < coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '10 minutes')
     and (not exists (select from {schema}.job j where j.id = r.job offset 0)
          or exists (select from {schema}.ledger l where l.job = r.job and l.is_final::int = 1 offset 0))
), last as (
  select queue, key from range order by queue desc, key desc limit 1
)
select f.job, f.damage, (select count(*)::int from range) as looked, l.queue, l.key
  from (select) as always
  left join last l on true
  left join found f on true
 order by f.job
