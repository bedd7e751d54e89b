-- End a flow that waits since its run %(run)s, as failed with %(error)s: its code has caught what lets a run leave, and went
-- on without having waited. It is dead, and its wait stays as it was, for an operator who resumes it with other code.
-- Locks its scheduled or waiting row, skipping it if it is locked; never waits. Writes nothing if another run has begun
-- since. What hooks are to be told of leaves a notice, as in noticed.sql.
-- Answers its job, or no row: it does not wait any more.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), left_by as materialized (
  select job from {schema}.ledger
   where job = %(job)s::bigint and run = %(run)s::bigint
     and not exists (
       select from {schema}.ledger l where l.job = %(job)s::bigint and l.run > %(run)s::bigint offset 0)
), in_scheduled as materialized (
  select s.place
    from left_by a
   cross join lateral (select ctid as place from {schema}.scheduled where job = a.job for update skip locked) s
), in_waiting as materialized (
  select w.place
    from left_by a
   cross join lateral (select ctid as place from {schema}.waiting where job = a.job for update skip locked) w
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place returning s.job
), out_of_waiting as (
  delete from {schema}.waiting w using in_waiting i where w.ctid = i.place returning w.job
), unawaited as (
  delete from {schema}.wait where job = any(array(select job from out_of_waiting))
), parked as materialized (
  select nextval('{schema}.run') as run, t.job, 0::smallint as attempt, j.kind, j.queue, j.keep, j.parent, j.unique_key
    from (select job from out_of_scheduled union all select job from out_of_waiting) t
   cross join lateral (select kind, queue, keep, parent, unique_key from {schema}.job where id = t.job offset 0) j
), written as (
  insert into {schema}.ledger (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind, error)
  select job, run, clock.now, clock.now + coalesce(keep, %(keep_dead)s::interval),
         'failed', attempt, true, queue, kind, %(error)s::text::jsonb
    from parked, clock
), died as (
  insert into {schema}.dead (job, run, died_at)
  select job, run, clock.now from clock, parked where keep is distinct from interval '0'
), heard as materialized (
  select k.kind
    from (select distinct kind from parked) k
   where not exists (select from {schema}.worker w where w.hears is not null and k.kind = any(w.kinds))
      or exists (select from {schema}.worker w where jsonb_exists(w.hears -> 'failed', k.kind))
), noticed as (
  insert into {schema}.notice
         (job, run, at, created_at, deadline_at, outcome, attempt, max_attempts, priority, kind, queue, tags, origin, error)
  select p.job, p.run, clock.now, j.created_at, j.deadline_at, 'failed', p.attempt, j.max_attempts, j.priority, p.kind,
         p.queue, j.tags, j.origin, %(error)s::text::jsonb
    from clock, heard
    join parked p using (kind)
   cross join lateral (
     select created_at, deadline_at, max_attempts, priority, tags, origin from {schema}.job where id = p.job offset 0) j
), freed as (
  delete from {schema}.unique_key
   where job = any(array(
           select p.job
             from parked p
            cross join lateral (
              select from {schema}.unique_key
               where queue = p.queue and key = p.unique_key and job = p.job for update skip locked) k))
), forgotten as (
  delete from {schema}.job where id = any(array(select job from parked where keep = interval '0'))
), unsaved as (
  delete from {schema}.saved where job = any(array(select job from parked where keep = interval '0'))
), woken as (
  insert into {schema}.wakeup (job, child)
  select parent, job from parked where parent is not null
  union all
  select p.job, null
    from parked p
   where exists (select from {schema}.checkpoint c where c.job = p.job and not c.is_done and c.child is not null offset 0)
  returning pg_notify('{schema_name}.wake', '')
), counted as (
  insert into {schema}.tally (minute, outcome, queue, kind, runs, run_time)
  select date_trunc('minute', clock.now), 'failed', queue, kind, count(*), interval '0'
    from parked, clock
   group by 1, 3, 4
)
select job from parked
