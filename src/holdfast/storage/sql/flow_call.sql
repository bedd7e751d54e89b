-- Begin children of one flow: what enqueue does for jobs that need not be unique, fenced, with an open call in the flow's
-- checkpoints for each of them. The fence is (worker, job, run) in lease, locked so that no rescue takes the run away.
-- Children with limits come to the gate.
-- Answers their ids in the order given. No row: the lease is lost, and nothing was written.
with fenced as materialized (
  select job from {schema}.lease
   where worker = %(worker)s::bigint and job = %(job)s::bigint and run = %(run)s::bigint
     for no key update
), clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), input as materialized (
  select nextval('{schema}.job_id_seq') as id, i.template, i.args::json as args, i.name,
         coalesce(i.run_at, clock.now + i.delay) as run_at,
         coalesce(i.deadline_at, clock.now + i.deadline_in) as deadline_at,
         i.limits::text[] as limits, i.limit_keys::text[] as limit_keys, i.limit_costs::int[] as limit_costs
    from fenced, clock, rows from (
      unnest(string_to_array(%(args)s::text, chr(30))),
      unnest(%(templates)s::text::int[], %(delays)s::interval[], %(run_ats)s::timestamptz[],
             %(deadlines)s::timestamptz[], %(deadlines_in)s::interval[], %(names)s::text::text[],
             %(limits)s::text[], %(limit_keys)s::text[], %(limit_costs)s::text[])
    ) as i (args, template, delay, run_at, deadline_at, deadline_in, name, limits, limit_keys, limit_costs)
), written as (
  insert into {schema}.job (id, created_at, deadline_at, priority, max_attempts, kind, queue, args, backoff, timeout,
                            keep, on_lost, tags, origin, parent, limits, limit_keys, limit_costs)
  select i.id, clock.now, i.deadline_at,
         (%(priorities)s::smallint[])[i.template], (%(max_attempts)s::smallint[])[i.template],
         (%(kinds)s::text[])[i.template], (%(queues)s::text[])[i.template], i.args,
         (%(backoffs)s::text[])[i.template]::jsonb, (%(timeouts)s::interval[])[i.template],
         (%(keeps)s::interval[])[i.template], (%(on_losts)s::text[])[i.template],
         (%(tags)s::text[])[i.template]::text[], (%(origins)s::text[])[i.template]::jsonb, %(job)s::bigint,
         i.limits, i.limit_keys, i.limit_costs
    from input i, clock
), due_now as (
  select (%(queues)s::text[])[i.template] as queue, (%(priorities)s::smallint[])[i.template] as priority, i.id as job,
         (%(kinds)s::text[])[i.template] as kind, 0 as attempt, clock.now as ready_at, i.deadline_at, i.limits, i.limit_keys,
         null::text[] as holds
    from clock, input i
   where i.run_at is null or i.run_at <= clock.now
), {part placed_new of=due_now}, later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt)
  select i.id, i.run_at, i.deadline_at, 0
    from input i, clock
   where i.run_at > clock.now
), called as (
  insert into {schema}.checkpoint (job, name, kind, place, code, written_at, is_done, child, bunch, branch)
  select %(job)s::bigint, i.name, 'call', %(place)s::int, %(code)s::bigint, clock.now, false, i.id, %(bunch)s::text,
         %(branch)s::text
    from input i, clock
)
select id from input order by id
