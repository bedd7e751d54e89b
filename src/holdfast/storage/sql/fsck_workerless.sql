-- Up to %(limit)s leases of workers whose rows are gone, locked until the end of the transaction that settles them.
-- Skips leases that another transaction is settling. Reads lease once. The part held_leases answers them.
with picked as materialized (
  select ctid as place, worker, job, run, attempt, null::text as host, null::integer as pid
    from {schema}.lease l
   where job = any(%(jobs)s::bigint[]) and not exists (select from {schema}.worker w where w.id = l.worker)
   order by job
   limit %(limit)s::int
     for update skip locked
)
{part held_leases}
