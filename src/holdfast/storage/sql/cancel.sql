-- Cancel jobs: a waiting job ends at once, a running one gets a request, which its worker passes on to the run.
-- Locks ready, scheduled, waiting, then lease rows in ascending order, skipping locked ones; never waits.
-- Leaves a notice where a hook has to be called.
-- Answers for each job, with kind and queue of what it has ended: cancelled, requested, final, unknown, or moving (ask again in a new statement).
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select distinct job from unnest(%(jobs)s::bigint[]) as a (job) order by job
), {part in_ready_and_scheduled}, in_waiting as materialized (
  select w.place
    from asked a
   cross join lateral (
     select ctid as place from {schema}.waiting where job = a.job for update skip locked) w
), in_lease as materialized (
  select l.place
    from asked a
   cross join {schema}.worker w
   cross join lateral (
     select ctid as place from {schema}.lease where worker = w.id and job = a.job for update skip locked) l
), out_of_ready as (
  delete from {schema}.ready r using in_ready i where r.segment = i.segment and r.ctid = i.place
  returning r.job, r.attempt, r.segment, r.limit_name, null::text[] as holds
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place
  returning s.job, s.attempt, null::smallint as segment, null::text as limit_name, s.holds
), out_of_waiting as (
  delete from {schema}.waiting w using in_waiting i where w.ctid = i.place
  returning w.job, 0::smallint as attempt, null::smallint as segment, null::text as limit_name, w.holds
), unawaited as (
  delete from {schema}.wait where job = any(array(select job from out_of_waiting))
), requested as (
  update {schema}.lease l
     set cancel_requested_at = coalesce(l.cancel_requested_at, clock.now),
         cancel_reason = case when l.cancel_requested_at is null then %(reason)s::text else l.cancel_reason end
    from in_lease i, clock
   where l.ctid = i.place
  returning l.job, l.worker
), stopped as materialized (
  select nextval('{schema}.run') as run, t.job, t.attempt, j.kind, j.queue, j.keep, j.parent, j.unique_key,
         j.limits, j.limit_keys, 0 as kept, {part held_permits place=t limits=j.limits} as held
    from (select * from out_of_ready union all select * from out_of_scheduled union all select * from out_of_waiting) t
   cross join lateral (select kind, queue, keep, parent, unique_key, limits, limit_keys from {schema}.job where id = t.job offset 0) j
   where not exists (
           select from {schema}.ledger f where f.job = t.job and f.is_final::int = 1
              and f.outcome in ({final_outcomes}) offset 0)
), {part ended_without_run outcome='cancelled' keep=%(keep_other)s::interval}, told as materialized (
  select pg_notify('{schema_name}.cancel', worker::text) from (select distinct worker from requested) r
)
select a.job,
       case when s.job is not null then 'cancelled'
            when r.job is not null then 'requested'
            when exists (select from {schema}.ledger l where l.job = a.job and l.is_final) then 'final'
            when not exists (select from {schema}.job j where j.id = a.job) then 'unknown'
            else 'moving'
       end as answer, s.kind, s.queue
  from asked a
  left join stopped s using (job)
  left join requested r using (job), (select count(*) from told) as everyone
