-- Up to %(limit)s leases that have outlived their timeout by %(grace)s although their worker is alive, or whose worker
-- there is not, locked until the end of the transaction in which they are settled. Skips what somebody is settling.
-- Reads all leases: there are only as many as jobs that run, and an index would cost every claim.
-- A lease whose job is gone comes with no attempts, so that it is swept and not kept for ever. One whose job has ended is
-- swept here and comes with is_over, and one whose run the ledger has already gets another: only damage by hand leaves such leases, and
-- settling them would fail, and all others with them.
with picked as materialized (
  select ctid as place, worker, job, run, attempt
    from {schema}.lease
   where timeout_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(grace)s::interval
      or not exists (select from {schema}.worker w where w.id = lease.worker)
   order by job
   limit %(limit)s::int
     for update skip locked
), known as materialized (
  select p.place, p.worker, p.job, p.run, p.attempt, coalesce(f.is_over, false) as is_over, coalesce(f.is_there, false) as is_there
    from picked p
   cross join lateral (
     select bool_or(is_final and outcome in ('succeeded', 'failed', 'cancelled', 'expired')) as is_over,
            bool_or(run = p.run) as is_there
       from {schema}.ledger where job = p.job) f
), swept as (
  delete from {schema}.lease where ctid = any(array(select place from known where is_over))
), renumbered as (
  update {schema}.lease set run = nextval('{schema}.run')
   where ctid = any(array(select place from known where is_there and not is_over))
  returning worker, job, run
)
select k.worker, k.job, coalesce(n.run, k.run) as run, k.attempt, coalesce(j.max_attempts, 0) as max_attempts,
       j.backoff::text, j.on_lost, j.kind, j.queue, w.host, w.pid, k.is_over
  from known k
  left join renumbered n on n.worker = k.worker and n.job = k.job
  left join lateral (
   select max_attempts, backoff, on_lost, kind, queue from {schema}.job where id = k.job offset 0) j on true
  left join {schema}.worker w on w.id = k.worker
