-- Write jobs that are due now, have no deadline, need not be unique and differ only in their args; answers with one row,
-- their ids in the order given. What enqueue does for any batch, at three quarters of its price.
-- Args are texts with a separator between them. Goes to ready, in the ring's current segment. Locks nothing of others'.
-- %(parent)s is the group that they are members of; with the part joined_members they take their places in it.
-- With %(notify)s their queue is notified once.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), input as materialized (
  select nextval('{schema}.job_id_seq') as id, args::json as args
    from unnest(string_to_array(%(args)s::text, chr(30))) as i (args)
), written as (
  insert into {schema}.job (id, created_at, priority, max_attempts, kind, queue, args, backoff, timeout, keep, on_lost,
                            tags, origin, parent)
  select i.id, clock.now, %(priority)s::smallint, %(max_attempts)s::smallint, %(kind)s::text, %(queue)s::text, i.args,
         %(backoff)s::text::jsonb, %(timeout)s::interval, %(keep)s::interval, %(on_lost)s::text, %(tags)s::text::text[],
         %(origin)s::text::jsonb, %(parent)s::bigint
    from clock, input i
), placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at)
  select %(queue)s::text, %(priority)s::smallint, id,
         (select current from {schema}.ring order by version desc limit 1), %(kind)s::text, 0, clock.now
    from clock, input
), told as materialized (
  select pg_notify('{schema_name}.ready', %(queue)s::text) where %(notify)s::boolean
)
{part joined_members jobs=input job=id}
select array_agg(id) as jobs from input, (select count(*) from told) as everyone
