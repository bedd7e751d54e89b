-- Write jobs that are due now, have no deadline, need not be unique and differ only in their args and in their keys of the same limits;
-- answers with one row, their ids in the order given. What enqueue_alike does, for the gate: nothing is looked up, and nothing of
-- others' is locked, so that it works in every isolation level, and before the limit was ever declared.
-- Args are texts with a separator between them. One knock for each key says where to look for those who came.
-- With %(notify)s the leader is notified.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), input as materialized (
  select nextval('{schema}.job_id_seq') as id, i.args::json as args, i.key, i.next_key
    from rows from (
      unnest(string_to_array(%(args)s::text, chr(30))), unnest(%(keys)s::text::text[], %(next_keys)s::text::text[])
    ) as i (args, key, next_key)
), written as (
  insert into {schema}.job (id, created_at, priority, max_attempts, kind, queue, args, backoff, timeout, keep, on_lost,
                            tags, origin, limits, limit_keys)
  select i.id, clock.now, %(priority)s::smallint, %(max_attempts)s::smallint, %(kind)s::text, %(queue)s::text, i.args,
         %(backoff)s::text::jsonb, %(timeout)s::interval, %(keep)s::interval, %(on_lost)s::text, %(tags)s::text::text[],
         %(origin)s::text::jsonb, %(limits)s::text::text[],
         case when i.next_key is null then array[i.key] else array[i.key, i.next_key] end
    from clock, input i
), placed as (
  insert into {schema}.ready_gated (queue, priority, job, segment, kind, attempt, ready_at, limit_name, limit_key, next_limit, next_key)
  select %(queue)s::text, %(priority)s::smallint, id, 8, %(kind)s::text, 0, clock.now,
         (%(limits)s::text::text[])[1], key, (%(limits)s::text::text[])[2], next_key
    from clock, input
), came as (
  insert into {schema}.knock (limit_name, key, given, priority, job)
  select (%(limits)s::text::text[])[1], key, 0, %(priority)s::smallint, min(id) from input group by key
), told as materialized (
  select pg_notify('{schema_name}.gate', '') where %(notify)s::boolean
)
select array_agg(id) as jobs from input, (select count(*) from told) as everyone
