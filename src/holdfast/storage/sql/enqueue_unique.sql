-- Write jobs that must be unique by (queue, key) among the active ones, in the order given; answers for each
-- the id of the job that holds its key now, and whether that is a new one.
-- Takes unique_key rows in (queue, key) order and waits for a transaction that is inserting the same key. A key whose job
-- has ended or is gone was left behind by a settle that found it locked, and is taken over here; but only if our
-- snapshot shows that very row of it, since of a row that came while we waited the job may be too new to be seen.
-- The same key twice in one call gives the first of them.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), input as materialized (
  select nextval('{schema}.job_id_seq') as id, i.template, i.args::json as args, i.key,
         coalesce(i.deadline_at, clock.now + i.deadline_in) as deadline_at,
         coalesce(i.run_at, clock.now + i.delay) as run_at,
         (%(queues)s::text[])[i.template] as queue
    from clock, rows from (
      unnest(string_to_array(%(args)s::text, chr(30))),
      unnest(%(templates)s::text::int[], %(delays)s::interval[], %(run_ats)s::timestamptz[],
             %(deadlines)s::timestamptz[], %(deadlines_in)s::interval[], %(keys)s::text::text[])
    ) as i (args, template, delay, run_at, deadline_at, deadline_in, key)
), held as (
  insert into {schema}.unique_key as held (queue, key, job)
  select distinct on (queue, key) queue, key, id
    from input
   where key is not null
   order by queue, key, id
  on conflict (queue, key) do update
     set job = {part job_that_keeps_the_key}
  returning held.queue, held.key, held.job
), chosen as materialized (
  select i.*, coalesce(h.job, i.id) as holder
    from input i
    left join held h on h.queue = i.queue and h.key = i.key
), written as (
  insert into {schema}.job (id, created_at, deadline_at, priority, max_attempts, kind, queue, args, backoff, timeout,
                            keep, on_lost, unique_key, tags, origin)
  select i.id, clock.now, i.deadline_at,
         (%(priorities)s::smallint[])[i.template], (%(max_attempts)s::smallint[])[i.template],
         (%(kinds)s::text[])[i.template], i.queue, i.args,
         (%(backoffs)s::text[])[i.template]::jsonb, (%(timeouts)s::interval[])[i.template],
         (%(keeps)s::interval[])[i.template], (%(on_losts)s::text[])[i.template], i.key,
         (%(tags)s::text[])[i.template]::text[], (%(origins)s::text[])[i.template]::jsonb
    from chosen i, clock
   where i.holder = i.id
), placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
  select i.queue, (%(priorities)s::smallint[])[i.template], i.id,
         (select current from {schema}.ring order by version desc limit 1),
         (%(kinds)s::text[])[i.template], 0, clock.now, i.deadline_at
    from clock, chosen i
   where i.holder = i.id and (i.run_at is null or i.run_at <= clock.now)
), later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt)
  select i.id, i.run_at, i.deadline_at, 0
    from chosen i, clock
   where i.holder = i.id and i.run_at > clock.now
), told as materialized (
  select pg_notify('{schema_name}.ready', queue)
    from (select distinct i.queue from chosen i, clock
           where %(notify)s::boolean and i.holder = i.id and (i.run_at is null or i.run_at <= clock.now)) r
  union all
  select pg_notify('{schema_name}.due', extract(epoch from due)::text)
    from (select min(i.run_at) as due from chosen i, clock
           where %(notify)s::boolean and i.holder = i.id and i.run_at > clock.now) d
   where due is not null
)
select holder, holder = id as is_new from chosen, (select count(*) from told) as everyone
 order by id
