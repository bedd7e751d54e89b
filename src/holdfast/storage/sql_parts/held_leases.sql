-- A part of lost_leases.sql and overdue_leases.sql: what rescue needs to know of each lease in `picked`, and what becomes of
-- leases that only damage by hand leaves behind. Settling those would fail, and all others of the batch with them:
-- - The job is gone: the lease comes with no attempts, so that its settling removes it.
-- - The job has ended: the lease is deleted here, and comes with is_over.
-- - The ledger already has this run: the lease gets another run.
, known as materialized (
  select p.place, p.worker, p.job, p.run, p.attempt, p.host, p.pid,
         coalesce(f.is_over, false) as is_over, coalesce(f.is_there, false) as is_there
    from picked p
   cross join lateral (
     select bool_or(is_final and outcome in ({final_outcomes})) as is_over,
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
       j.backoff::text, j.on_lost, j.kind, j.queue, k.host, k.pid, k.is_over
  from known k
  left join renumbered n on n.worker = k.worker and n.job = k.job
  left join lateral (
   select max_attempts, backoff, on_lost, kind, queue from {schema}.job where id = k.job offset 0) j on true
