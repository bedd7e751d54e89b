-- End up to %(limit)s waiting jobs whose deadline has passed. Running ones are ended by their timeout, which
-- is never later than their deadline. Looks from %(since)s on (NULL: from the beginning), since entries of
-- jobs that are gone pile up before it while somebody holds an old snapshot.
-- Skips locked rows; leans on the partial deadline indexes. Answers how many, and the deadline up to which all
-- tables were looked through: the next since.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), in_ready as materialized (
  select segment, ctid as place
    from {schema}.ready
   where deadline_at is not null and deadline_at <= (select now from clock)
     and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
   order by deadline_at
   limit %(limit)s::int
     for update skip locked
), in_scheduled as materialized (
  select ctid as place
    from {schema}.scheduled
   where deadline_at is not null and deadline_at <= (select now from clock)
     and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
   order by deadline_at
   limit %(limit)s::int
     for update skip locked
), in_waiting as materialized (
  select ctid as place
    from {schema}.waiting
   where deadline_at is not null and deadline_at <= (select now from clock)
     and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
   order by deadline_at
   limit %(limit)s::int
     for update skip locked
), out_of_ready as (
  delete from {schema}.ready r using in_ready i where r.segment = i.segment and r.ctid = i.place
  returning r.job, r.attempt, r.deadline_at
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place
  returning s.job, s.attempt, s.deadline_at
), out_of_waiting as (
  delete from {schema}.waiting w using in_waiting i where w.ctid = i.place
  returning w.job, 0::smallint as attempt, w.deadline_at
), unawaited as (
  delete from {schema}.wait where job = any(array(select job from out_of_waiting))
), stopped as materialized (
  select t.job, t.attempt, t.deadline_at, j.kind, j.queue, j.keep, j.parent
    from (select job, attempt, deadline_at from out_of_ready
          union all select job, attempt, deadline_at from out_of_scheduled
          union all select job, attempt, deadline_at from out_of_waiting) t
   cross join lateral (select kind, queue, keep, parent from {schema}.job where id = t.job offset 0) j
), written as (
  insert into {schema}.ledger (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind, error)
  select job, nextval('{schema}.run'), clock.now, clock.now + coalesce(keep, %(keep_other)s::interval),
         'expired', attempt, true, queue, kind, %(error)s::text::jsonb
    from stopped, clock
), freed as (
  delete from {schema}.unique_key
   where job = any(array(
           select s.job
             from stopped s
            cross join lateral (
              select from {schema}.unique_key where job = s.job for update skip locked) k))
), forgotten as (
  delete from {schema}.job where id = any(array(select job from stopped where keep = interval '0'))
), unsaved as (
  delete from {schema}.saved where job = any(array(select job from stopped where keep = interval '0'))
), woken as (
  insert into {schema}.wakeup (job, child)
  select parent, job from stopped where parent is not null
  union all
  select s.job, null
    from stopped s
   where exists (select from {schema}.checkpoint c where c.job = s.job and not c.is_done and c.child is not null offset 0)
  returning pg_notify('{schema_name}.wake', '')
), counted as (
  insert into {schema}.tally (minute, outcome, queue, kind, runs, run_time)
  select date_trunc('minute', clock.now), 'expired', queue, kind, count(*), interval '0'
    from stopped, clock
   group by 1, 3, 4
)
select count(*)::int,
       least(max(deadline_at),
             (select max(deadline_at) from out_of_ready having count(*) >= %(limit)s::int),
             (select max(deadline_at) from out_of_scheduled having count(*) >= %(limit)s::int),
             (select max(deadline_at) from out_of_waiting having count(*) >= %(limit)s::int))
  from stopped
