-- Up to %(limit)s leases that have outlived their timeout by %(grace)s although their worker is alive, or whose worker is
-- gone, locked until the end of the transaction that settles them. Skips leases that another transaction is settling.
-- Reads all leases: there are only as many as jobs that run, and an index would cost every claim.
-- The part held_leases answers them.
with picked as materialized (
  select ctid as place, worker, job, run, attempt,
         (select host from {schema}.worker w where w.id = lease.worker) as host,
         (select pid from {schema}.worker w where w.id = lease.worker) as pid
    from {schema}.lease
   where timeout_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(grace)s::interval
      or not exists (select from {schema}.worker w where w.id = lease.worker)
   order by job
   limit %(limit)s::int
     for update skip locked
)
{part held_leases}
