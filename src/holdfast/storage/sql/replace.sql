-- Give jobs that hold a unique key new contents and a new time, in place: the id stays, what was asked changes,
-- and what the job saved is deleted, because it belongs to the old contents.
-- Touches only what still waits: the ready or scheduled row is locked (skipping locked ones) and inserted again.
-- Answers the jobs that were replaced; one that is missing is running, moving or at its end, and stays as it is.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select i.job, i.template, i.args::json as args, coalesce(i.run_at, clock.now + i.delay) as run_at,
         coalesce(i.deadline_at, clock.now + i.deadline_in) as deadline_at,
         (%(queues)s::text[])[i.template] as queue
    from clock, rows from (
      unnest(string_to_array(%(args)s::text, chr(30))),
      unnest(%(jobs)s::text::bigint[], %(templates)s::text::int[], %(delays)s::interval[],
             %(run_ats)s::timestamptz[], %(deadlines)s::timestamptz[], %(deadlines_in)s::interval[])
    ) as i (args, job, template, delay, run_at, deadline_at, deadline_in)
   order by i.job
), {part in_ready_and_scheduled}, out_of_ready as (
  delete from {schema}.ready r using in_ready i where r.segment = i.segment and r.ctid = i.place
  returning r.job
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place
  returning s.job
), found as materialized (
  select a.*
    from asked a
    join (select job from out_of_ready union all select job from out_of_scheduled) taken using (job)
), changed as (
  update {schema}.job j
     set args = f.args, deadline_at = f.deadline_at, kind = (%(kinds)s::text[])[f.template],
         priority = (%(priorities)s::smallint[])[f.template],
         max_attempts = (%(max_attempts)s::smallint[])[f.template],
         backoff = (%(backoffs)s::text[])[f.template]::jsonb, timeout = (%(timeouts)s::interval[])[f.template],
         keep = (%(keeps)s::interval[])[f.template], on_lost = (%(on_losts)s::text[])[f.template],
         tags = (%(tags)s::text[])[f.template]::text[], origin = (%(origins)s::text[])[f.template]::jsonb
    from found f
   where j.id = f.job and j.id = any(array(select job from found))
), unsaved as (
  delete from {schema}.saved where job = any(array(select job from found))
), placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
  select f.queue, (%(priorities)s::smallint[])[f.template], f.job,
         (select current from {schema}.ring order by version desc limit 1),
         (%(kinds)s::text[])[f.template], 0, clock.now, f.deadline_at
    from found f, clock
   where f.run_at is null or f.run_at <= clock.now
), later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt)
  select f.job, f.run_at, f.deadline_at, 0 from found f, clock where f.run_at > clock.now
), told as materialized (
  select pg_notify('{schema_name}.ready', queue)
    from (select distinct f.queue from found f, clock
           where %(notify)s::boolean and (f.run_at is null or f.run_at <= clock.now)) r
  union all
  select pg_notify('{schema_name}.due', extract(epoch from due)::text)
    from (select min(f.run_at) as due from found f, clock where %(notify)s::boolean and f.run_at > clock.now) d
   where due is not null
)
select job from found, (select count(*) from told) as everyone
