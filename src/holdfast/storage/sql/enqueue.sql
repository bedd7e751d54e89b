-- Write jobs that need not be unique, in the order given; answers with one row, their ids in that order.
-- Options that jobs share are sent once, as templates. Args are texts with a separator between them, which Postgres reads
-- in two thirds of the time of a JSON array. Args and arrays have one element per job; an array is NULL if no job has a
-- value for it.
-- Due now goes to ready, in the ring's current segment; later goes to scheduled. Locks nothing of others'.
-- %(parent)s is the group that they are members of; with the part joined_members they take their places in it.
-- With %(notify)s each queue that got a ready job is notified once, and the leader of the earliest due time.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), input as materialized (
  select nextval('{schema}.job_id_seq') as id, i.template, i.args::json as args,
         coalesce(i.run_at, clock.now + i.delay) as run_at,
         coalesce(i.deadline_at, clock.now + i.deadline_in) as deadline_at
    from clock, rows from (
      unnest(string_to_array(%(args)s::text, chr(30))),
      unnest(%(templates)s::text::int[], %(delays)s::interval[], %(run_ats)s::timestamptz[],
             %(deadlines)s::timestamptz[], %(deadlines_in)s::interval[])
    ) as i (args, template, delay, run_at, deadline_at, deadline_in)
), written as (
  insert into {schema}.job (id, created_at, deadline_at, priority, max_attempts, kind, queue, args, backoff, timeout,
                            keep, on_lost, tags, origin, parent)
  select i.id, clock.now, i.deadline_at,
         (%(priorities)s::smallint[])[i.template], (%(max_attempts)s::smallint[])[i.template],
         (%(kinds)s::text[])[i.template], (%(queues)s::text[])[i.template], i.args,
         (%(backoffs)s::text[])[i.template]::jsonb, (%(timeouts)s::interval[])[i.template],
         (%(keeps)s::interval[])[i.template], (%(on_losts)s::text[])[i.template],
         (%(tags)s::text[])[i.template]::text[], (%(origins)s::text[])[i.template]::jsonb, %(parent)s::bigint
    from input i, clock
), {part placed_from_input}, later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt)
  select i.id, i.run_at, i.deadline_at, 0
    from input i, clock
   -- Asked once: without delays the input is not read again.
   where (%(delays)s::interval[] is not null or %(run_ats)s::timestamptz[] is not null)
     and i.run_at > clock.now
), told as materialized (
  select pg_notify('{schema_name}.ready', queue)
    from (select distinct (%(queues)s::text[])[i.template] as queue
            from input i, clock
           where %(notify)s::boolean and (i.run_at is null or i.run_at <= clock.now)) r
  union all
  select pg_notify('{schema_name}.due', extract(epoch from due)::text)
    from (select min(i.run_at) as due from input i, clock where %(notify)s::boolean and i.run_at > clock.now) d
   where due is not null
)
{part joined_members jobs=input job=id}
select array_agg(id) as jobs from input, (select count(*) from told) as everyone
