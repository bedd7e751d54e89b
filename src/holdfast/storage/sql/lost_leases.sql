-- Up to %(limit)s leases of workers that were marked lost, locked until the end of the transaction in which
-- they are settled. Skips what somebody else is rescuing or settling. Leans on the primary key of lease.
-- A lease whose job is gone comes with no attempts, so that it is swept and not kept for ever.
select l.worker, l.job, l.run, l.attempt, coalesce(j.max_attempts, 0) as max_attempts, j.backoff::text, j.on_lost,
       j.kind, j.queue, w.host, w.pid
  from {schema}.worker w
 cross join lateral (
   select worker, job, run, attempt from {schema}.lease
    where worker = w.id
    order by job
      for update skip locked) l
  left join lateral (
   select max_attempts, backoff, on_lost, kind, queue from {schema}.job where id = l.job offset 0) j on true
 where w.lost_at is not null
 limit %(limit)s::int
