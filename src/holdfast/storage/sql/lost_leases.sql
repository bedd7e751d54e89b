-- Up to %(limit)s leases of workers that were marked lost, locked until the end of the transaction that settles them.
-- Skips leases that another transaction is rescuing or settling. Leans on the primary key of lease.
-- The part held_leases answers them.
with picked as materialized (
  select l.place, l.worker, l.job, l.run, l.attempt, w.host, w.pid
    from {schema}.worker w
   cross join lateral (
     select ctid as place, worker, job, run, attempt from {schema}.lease
      where worker = w.id
      order by job
        for update skip locked) l
   where w.lost_at is not null
   limit %(limit)s::int
)
{part held_leases}
