-- End a flow that waits since its run %(run)s, as failed with %(error)s: its code has caught what lets a run leave, and went
-- on without having waited. It is dead, and its wait stays as it was, for an operator who resumes it with other code.
-- Locks its scheduled or waiting row, skipping it if it is locked; never waits. Writes nothing if another run has begun
-- since. Leaves a notice where a hook has to be called.
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
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place returning s.job, s.holds
), out_of_waiting as (
  delete from {schema}.waiting w using in_waiting i where w.ctid = i.place returning w.job, w.holds
), unawaited as (
  delete from {schema}.wait where job = any(array(select job from out_of_waiting))
), stopped as materialized (
  select nextval('{schema}.run') as run, t.job, 0::smallint as attempt, j.kind, j.queue, j.keep, j.parent, j.unique_key,
         j.limits, j.limit_keys, 0 as kept, coalesce(cardinality(t.holds), 0) as held
    from (select * from out_of_scheduled union all select * from out_of_waiting) t
   cross join lateral (select kind, queue, keep, parent, unique_key, limits, limit_keys from {schema}.job where id = t.job offset 0) j
), died as (
  insert into {schema}.dead (job, run, died_at, fingerprint)
  select job, run, clock.now, %(error)s::text::jsonb ->> 'fingerprint'
    from clock, stopped
   where keep is distinct from interval '0'
), failures as (
  insert into {schema}.failure_tally (seen_at, job, run, runs, fingerprint, kind, queue, code, type, message, frame)
  select clock.now, s.job, s.run, 1, e.error ->> 'fingerprint', s.kind, s.queue,
         e.error ->> 'code', e.error ->> 'type', left(e.error ->> 'message', 500), e.error ->> 'frame'
    from clock, stopped s
   cross join (select %(error)s::text::jsonb as error) e
   where e.error ->> 'fingerprint' is not null
), {part ended_without_run outcome='failed' keep=%(keep_dead)s::interval}
select job from stopped
