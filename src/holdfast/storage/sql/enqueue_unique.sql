-- Write jobs that must be unique by (queue, key) among the active ones, in the order given; answers for each
-- the id of the job that holds its key now, and whether that is a new one.
-- Takes unique_key rows in (queue, key) order and waits for a transaction that is inserting the same key. A key whose job
-- has ended or is gone was left behind by a settle that found it locked, and is taken over here; but only if our
-- snapshot shows that very row of it, since of a row that came while we waited the job may be too new to be seen.
-- The same key twice in one call gives the first of them. A job with a unique_for keeps its key for that long from now, also after its
-- end. A key is also taken from the job in taken_from, whatever that does: a debounced job came while it ran, and is put off since
-- %(sinces)s, or since now.
-- Also for jobs with limits, with a key or without: they go to the gate, with a knock for each key of a limit. That locks and reads
-- nothing, so that it works in every isolation level and before the limit was ever declared.
-- %(parent)s is the group that they are members of; with the part joined_members they take their places in it, those that were
-- there before too.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), input as materialized (
  select nextval('{schema}.job_id_seq') as id, i.template, i.args::json as args, i.key, i.unique_for,
         coalesce(i.deadline_at, clock.now + i.deadline_in) as deadline_at,
         case when i.debounce is not null then coalesce(i.since, clock.now) end as since,
         coalesce(i.since, clock.now) + i.max_wait as until,
         coalesce(i.run_at, clock.now + i.delay,
                  least(clock.now + i.debounce, coalesce(i.since, clock.now) + i.max_wait)) as run_at,
         (%(queues)s::text[])[i.template] as queue, i.limits::text[] as limits, i.limit_keys::text[] as limit_keys,
         i.limit_costs::int[] as limit_costs
    from clock, rows from (
      unnest(string_to_array(%(args)s::text, chr(30))),
      unnest(%(templates)s::text::int[], %(delays)s::interval[], %(run_ats)s::timestamptz[],
             %(deadlines)s::timestamptz[], %(deadlines_in)s::interval[], %(keys)s::text::text[],
             %(limits)s::text[], %(limit_keys)s::text[], %(limit_costs)s::text[],
             %(debounces)s::interval[], %(max_waits)s::interval[], %(unique_fors)s::interval[], %(sinces)s::timestamptz[])
    ) as i (args, template, delay, run_at, deadline_at, deadline_in, key, limits, limit_keys, limit_costs, debounce, max_wait,
            unique_for, since)
), held as (
  insert into {schema}.unique_key as held (queue, key, job, until)
  select distinct on (queue, key) queue, key, id, clock.now + unique_for
    from input, clock
   where key is not null
   order by queue, key, id
  on conflict (queue, key) do update
     set (job, until) = {part job_that_keeps_the_key is_given_up=held.job=any(%(taken_from)s::text::bigint[])}
  returning held.queue, held.key, held.job
), chosen as materialized (
  select i.*, coalesce(h.job, i.id) as holder
    from input i
    left join held h on h.queue = i.queue and h.key = i.key
), written as (
  insert into {schema}.job (id, created_at, deadline_at, priority, max_attempts, kind, queue, args, backoff, timeout,
                            keep, on_lost, unique_key, tags, origin, parent, limits, limit_keys, limit_costs, debounced_since,
                            debounced_until)
  select i.id, clock.now, i.deadline_at,
         (%(priorities)s::smallint[])[i.template], (%(max_attempts)s::smallint[])[i.template],
         (%(kinds)s::text[])[i.template], i.queue, i.args,
         (%(backoffs)s::text[])[i.template]::jsonb, (%(timeouts)s::interval[])[i.template],
         (%(keeps)s::interval[])[i.template], (%(on_losts)s::text[])[i.template], i.key,
         (%(tags)s::text[])[i.template]::text[], (%(origins)s::text[])[i.template]::jsonb, %(parent)s::bigint, i.limits, i.limit_keys,
         i.limit_costs, i.since, i.until
    from chosen i, clock
   where i.holder = i.id
), due_now as (
  select i.queue, (%(priorities)s::smallint[])[i.template] as priority, i.id as job, (%(kinds)s::text[])[i.template] as kind, 0 as attempt,
         clock.now as ready_at, i.deadline_at, i.limits, i.limit_keys, null::text[] as holds
    from clock, chosen i
   where i.holder = i.id and (i.run_at is null or i.run_at <= clock.now)
), {part placed_new of=due_now}, later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt)
  select i.id, i.run_at, i.deadline_at, 0
    from chosen i, clock
   where i.holder = i.id and i.run_at > clock.now
), told as materialized (
  select pg_notify('{schema_name}.ready', queue)
    from (select distinct queue from placed where %(notify)s::boolean and segment <> 8) r
  union all
  select pg_notify('{schema_name}.gate', '') where %(notify)s::boolean and exists (select from placed where segment = 8)
  union all
  select pg_notify('{schema_name}.due', extract(epoch from due)::text)
    from (select min(i.run_at) as due from chosen i, clock
           where %(notify)s::boolean and i.holder = i.id and i.run_at > clock.now) d
   where due is not null
)
{part joined_members jobs=chosen job=holder}
select holder, holder = id as is_new from chosen, (select count(*) from told) as everyone
 order by id
