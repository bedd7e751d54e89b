-- End up to %(limit)s waiting jobs whose deadline has passed. Running ones are ended by their timeout, which
-- is never later than their deadline. Looks from %(since)s on (NULL: from the beginning), since entries of
-- jobs that are gone pile up before it while a transaction holds an old snapshot.
-- Skips locked rows; leans on the partial deadline indexes. Answers how many, and the deadline up to which all
-- tables were looked through (the next since), and which.
-- What hooks are to be told of leaves a notice, as in noticed.sql.
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
  select nextval('{schema}.run') as run, t.job, t.attempt, t.deadline_at, j.kind, j.queue, j.keep, j.parent
    from (select job, attempt, deadline_at from out_of_ready
          union all select job, attempt, deadline_at from out_of_scheduled
          union all select job, attempt, deadline_at from out_of_waiting) t
   cross join lateral (select kind, queue, keep, parent from {schema}.job where id = t.job offset 0) j
   where not exists (
           select from {schema}.ledger f where f.job = t.job and f.is_final::int = 1
              and f.outcome in ('succeeded', 'failed', 'cancelled', 'expired') offset 0)
), written as (
  insert into {schema}.ledger (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind, error)
  select job, run, clock.now, clock.now + coalesce(keep, %(keep_other)s::interval),
         'expired', attempt, true, queue, kind, %(error)s::text::jsonb
    from stopped, clock
), heard as materialized (
  select k.kind
    from (select distinct kind from stopped) k
   where not exists (select from {schema}.worker w where w.hears is not null and k.kind = any(w.kinds))
      or exists (select from {schema}.worker w where jsonb_exists(w.hears -> 'expired', k.kind))
), noticed as (
  insert into {schema}.notice
         (job, run, at, created_at, deadline_at, outcome, attempt, max_attempts, priority, kind, queue, tags, origin, error)
  select s.job, s.run, clock.now, j.created_at, j.deadline_at, 'expired', s.attempt, j.max_attempts, j.priority, s.kind,
         s.queue, j.tags, j.origin, %(error)s::text::jsonb
    from clock, heard
    join stopped s using (kind)
   cross join lateral (
     select created_at, deadline_at, max_attempts, priority, tags, origin from {schema}.job where id = s.job offset 0) j
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
select count(*)::int as moved,
       least(max(deadline_at),
             (select max(deadline_at) from out_of_ready having count(*) >= %(limit)s::int),
             (select max(deadline_at) from out_of_scheduled having count(*) >= %(limit)s::int),
             (select max(deadline_at) from out_of_waiting having count(*) >= %(limit)s::int)) as seen,
       coalesce(array_agg(job), '{}') as jobs, coalesce(array_agg(attempt), '{}') as attempts,
       coalesce(array_agg(kind), '{}') as kinds, coalesce(array_agg(queue), '{}') as queues
  from stopped
