-- One heartbeat for all jobs of a worker, and what it should know: whether it still counts as alive, which of
-- the runs it holds in memory are gone, which leases the database has that it does not know of (a claim whose
-- reply was lost), which of its runs are to be cancelled, whether there are notices for its hooks, and what operators ask of it.
-- It says what it does and how many slots it has for each queue; NULL leaves what it has said before.
-- Locks the worker row; refused once it was marked lost: then is_alive is false and nothing was written.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), beaten as (
  update {schema}.worker w
     set beat_at = clock.now, expires_at = clock.now + %(lease)s::interval,
         activity = coalesce(%(activity)s::text, w.activity),
         queue_slots = coalesce(%(queue_slots)s::int[], w.queue_slots),
         slots = coalesce((select sum(n)::int from unnest(%(queue_slots)s::int[]) as n), w.slots)
    from clock
   where w.id = %(worker)s::bigint and w.lost_at is null
  returning w.id
), held as materialized (
  select job, run, attempt, cancel_requested_at from {schema}.lease where worker = %(worker)s::bigint
)
select exists (select from beaten) as is_alive,
       array(select r.run from unnest(%(runs)s::bigint[]) as r (run)
              where r.run not in (select run from held)) as missing,
       array(select h.run from held h where h.cancel_requested_at is not null order by h.job) as to_cancel,
       array(select h.job from held h where h.run <> all(%(runs)s::bigint[]) order by h.job) as unknown_jobs,
       array(select h.run from held h where h.run <> all(%(runs)s::bigint[]) order by h.job) as unknown_runs,
       exists (select from {schema}.notice n, {schema}.worker w
                where w.id = %(worker)s::bigint and n.kind = any(w.kinds)
                  and not exists (select from {schema}.worker t where t.id = n.teller and t.lost_at is null)) as is_any_untold,
       r.activity as asked_activity, r.grace as asked_grace, r.by as asked_by, r.reason as asked_reason, r.slots::text as asked_slots
  from (values (%(worker)s::bigint)) as me (worker)
  left join {schema}.worker_request r on r.worker = me.worker
