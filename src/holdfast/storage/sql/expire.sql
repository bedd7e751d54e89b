-- End up to %(limit)s waiting jobs whose deadline has passed. Running ones are ended by their timeout, which
-- is never later than their deadline. Looks from %(since)s on (NULL: from the beginning), since entries of
-- jobs that are gone pile up before it while a transaction holds an old snapshot.
-- Skips locked rows; leans on the partial deadline indexes. Answers how many, and the deadline up to which all
-- tables were looked through (the next since), and which.
-- Leaves a notice where a hook has to be called.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), in_ready as materialized (
  select segment, ctid as place
    {part past_deadline table=ready}
), in_scheduled as materialized (
  select ctid as place
    {part past_deadline table=scheduled}
), in_waiting as materialized (
  select ctid as place
    {part past_deadline table=waiting}
), out_of_ready as (
  delete from {schema}.ready r using in_ready i where r.segment = i.segment and r.ctid = i.place
  returning r.job, r.attempt, r.deadline_at, r.segment, r.limit_name, null::text[] as holds
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place
  returning s.job, s.attempt, s.deadline_at, null::smallint as segment, null::text as limit_name, s.holds
), out_of_waiting as (
  delete from {schema}.waiting w using in_waiting i where w.ctid = i.place
  returning w.job, 0::smallint as attempt, w.deadline_at, null::smallint as segment, null::text as limit_name, w.holds
), unawaited as (
  delete from {schema}.wait where job = any(array(select job from out_of_waiting))
), stopped as materialized (
  select nextval('{schema}.run') as run, t.job, t.attempt, t.deadline_at, j.kind, j.queue, j.keep, j.parent, j.unique_key,
         j.limits, j.limit_keys, 0 as kept, {part held_permits place=t limits=j.limits} as held
    from (select * from out_of_ready union all select * from out_of_scheduled union all select * from out_of_waiting) t
   cross join lateral (select kind, queue, keep, parent, unique_key, limits, limit_keys from {schema}.job where id = t.job offset 0) j
   where not exists (
           select from {schema}.ledger f where f.job = t.job and f.is_final::int = 1
              and f.outcome in ({final_outcomes}) offset 0)
), {part ended_without_run outcome='expired' keep=%(keep_other)s::interval}
select count(*)::int as moved,
       least(max(deadline_at),
             (select max(deadline_at) from out_of_ready having count(*) >= %(limit)s::int),
             (select max(deadline_at) from out_of_scheduled having count(*) >= %(limit)s::int),
             (select max(deadline_at) from out_of_waiting having count(*) >= %(limit)s::int)) as seen,
       coalesce(array_agg(job), '{}') as jobs, coalesce(array_agg(attempt), '{}') as attempts,
       coalesce(array_agg(kind), '{}') as kinds, coalesce(array_agg(queue), '{}') as queues
  from stopped
