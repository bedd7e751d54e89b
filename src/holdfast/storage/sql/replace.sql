-- Give jobs that hold a unique key new contents and a new time, in place: the id stays, what was asked changes,
-- and what the job saved is deleted, because it belongs to the old contents.
-- A job that had limits gives back what it held by them, and comes to the gate of its new ones.
-- With a debounce the time is that long from now, but no later than max_wait after the first enqueue of the burst; a job that
-- has run before, and waits for a retry, begins a new one.
-- Touches only what still waits and has not begun as a flow: locks the unique_key rows in the order given, waiting for a transaction
-- that holds them, then the ready or scheduled row (skipping locked ones), which is inserted again.
-- Answers the jobs that were replaced; one that is missing is running, moving or at its end, does not hold its key any
-- more, or is a flow that has begun, and stays as it is.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select i.job, i.template, i.args::json as args, i.debounce, i.max_wait, coalesce(i.run_at, clock.now + i.delay) as run_at,
         coalesce(i.deadline_at, clock.now + i.deadline_in) as deadline_at,
         (%(queues)s::text[])[i.template] as queue, i.limits::text[] as limits, i.limit_keys::text[] as limit_keys,
         i.limit_costs::int[] as limit_costs
    from clock, rows from (
      unnest(string_to_array(%(args)s::text, chr(30))),
      unnest(%(jobs)s::text::bigint[], %(templates)s::text::int[], %(delays)s::interval[],
             %(run_ats)s::timestamptz[], %(deadlines)s::timestamptz[], %(deadlines_in)s::interval[],
             %(limits)s::text[], %(limit_keys)s::text[], %(limit_costs)s::text[],
             %(keys)s::text::text[], %(debounces)s::interval[], %(max_waits)s::interval[])
    ) as i (args, job, template, delay, run_at, deadline_at, deadline_in, limits, limit_keys, limit_costs, key, debounce, max_wait)
   cross join lateral (
     select from {schema}.unique_key
      where queue = (%(queues)s::text[])[i.template] and key = i.key and job = i.job
        for update) k
   where not exists (select from {schema}.checkpoint c where c.job = i.job offset 0)
   order by i.job
), {part in_ready_and_scheduled}, out_of_ready as (
  delete from {schema}.ready r using in_ready i where r.segment = i.segment and r.ctid = i.place
  returning r.job, r.segment, r.limit_name, null::text[] as holds, r.ready_at
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place
  returning s.job, null::smallint as segment, null::text as limit_name, s.holds
), found as materialized (
  select a.job, a.template, a.args, a.deadline_at, a.queue, a.limits, a.limit_keys, a.limit_costs, b.since, b.since + a.max_wait as until,
         case when a.debounce is null then a.run_at else least(clock.now + a.debounce, b.since + a.max_wait) end as run_at,
         case when a.debounce is not null then t.ready_at end as ready_at
    from clock, asked a
    join (select job, ready_at from out_of_ready union all select job, null from out_of_scheduled) t using (job)
   cross join lateral (
     select case when a.debounce is null then null
                 when exists (select from {schema}.ledger l where l.job = a.job offset 0) then clock.now
                 else coalesce((select j.debounced_since from {schema}.job j where j.id = a.job), clock.now) end as since
     offset 0) b
), before as materialized (
  select j.limits, j.limit_keys, 0 as kept, {part held_permits place=t limits=j.limits} as held
    from (select job, segment, limit_name, holds from out_of_ready union all select * from out_of_scheduled) t
   cross join lateral (select limits, limit_keys from {schema}.job where id = t.job offset 0) j
   where j.limits is not null
), {part given_back of=before}, changed as (
  update {schema}.job j
     set args = f.args, deadline_at = f.deadline_at, kind = (%(kinds)s::text[])[f.template],
         priority = (%(priorities)s::smallint[])[f.template],
         max_attempts = (%(max_attempts)s::smallint[])[f.template],
         backoff = (%(backoffs)s::text[])[f.template]::jsonb, timeout = (%(timeouts)s::interval[])[f.template],
         keep = (%(keeps)s::interval[])[f.template], on_lost = (%(on_losts)s::text[])[f.template],
         tags = (%(tags)s::text[])[f.template]::text[], origin = (%(origins)s::text[])[f.template]::jsonb,
         limits = f.limits, limit_keys = f.limit_keys, limit_costs = f.limit_costs,
         debounced_since = f.since, debounced_until = f.until
    from found f
   where j.id = f.job and j.id = any(array(select job from found))
), unsaved as (
  delete from {schema}.saved where job = any(array(select job from found))
), due_now as (
  select f.queue, (%(priorities)s::smallint[])[f.template] as priority, f.job, (%(kinds)s::text[])[f.template] as kind, 0 as attempt,
         coalesce(f.ready_at, clock.now) as ready_at, f.deadline_at, f.limits, f.limit_keys, null::text[] as holds
    from found f, clock
   where f.run_at is null or f.run_at <= clock.now
), {part placed of=due_now}, later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt)
  select f.job, f.run_at, f.deadline_at, 0 from found f, clock where f.run_at > clock.now
), told as materialized (
  select pg_notify('{schema_name}.ready', queue)
    from (select distinct queue from placed where %(notify)s::boolean and segment <> 8) r
  union all
  select pg_notify('{schema_name}.gate', '') where %(notify)s::boolean and exists (select from placed where segment = 8)
  union all
  select pg_notify('{schema_name}.due', extract(epoch from due)::text)
    from (select min(f.run_at) as due from found f, clock where %(notify)s::boolean and f.run_at > clock.now) d
   where due is not null
)
select job from found, (select count(*) from told) as everyone
