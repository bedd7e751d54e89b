-- Up to %(limit)s leases that have outlived their timeout by %(grace)s although their worker is alive, locked
-- until the end of the transaction in which they are settled. Skips what somebody is settling.
-- Reads all leases: there are only as many as jobs that run, and an index would cost every claim.
-- A lease whose job is gone comes with no attempts, so that it is swept and not kept for ever.
select l.worker, l.job, l.run, l.attempt, coalesce(j.max_attempts, 0) as max_attempts, j.backoff::text, j.on_lost,
       j.kind, j.queue, w.host, w.pid
  from (select worker, job, run, attempt from {schema}.lease
         where timeout_at + %(grace)s::interval < coalesce(%(now)s::timestamptz, statement_timestamp())
         order by job
         limit %(limit)s::int
           for update skip locked) l
  left join lateral (
   select max_attempts, backoff, on_lost, kind, queue from {schema}.job where id = l.job offset 0) j on true
  left join {schema}.worker w on w.id = l.worker
