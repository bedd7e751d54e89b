-- Let a flow wait for a job that it did not start: an open call in its checkpoints, and the flow as the job's parent, if
-- it has none yet, so that its end wakes the flow. A settle of that job which has begun before does not know of us: the
-- sweep finds its end. The fence is (worker, job, run) in lease. No row: the lease is lost, and nothing was written.
-- Writes nothing either, and answers the chain of jobs, if that job waits for this flow, itself or through others: along the open
-- calls of up to %(looks)s jobs, no further than ten from it. Two waits that are committed at the same time do not see each other.
with recursive fenced as materialized (
  select job, run from {schema}.lease
   where worker = %(worker)s::bigint and job = %(job)s::bigint and run = %(run)s::bigint
     for no key update
), chain (job, path) as (
  select %(child)s::bigint, array[%(child)s::bigint]
   union all
  select c.child, n.path || c.child
    from chain n
   cross join lateral (
     select child from {schema}.checkpoint
      where job = n.job and not is_done and child is not null and child <> all(n.path) offset 0) c
   where n.job <> %(job)s::bigint and cardinality(n.path) < 10
), cycle as materialized (
  select path from (select job, path from chain limit %(looks)s::int) looked where job = %(job)s::bigint limit 1
), adopted as (
  update {schema}.job set parent = %(job)s::bigint
   where id = %(child)s::bigint and parent is null and exists (select from fenced) and not exists (select from cycle)
), called as (
  insert into {schema}.checkpoint (job, name, kind, place, code, written_at, is_done, child, bunch, branch)
  select %(job)s::bigint, %(name)s::text, 'call', %(place)s::int, %(code)s::bigint,
         coalesce(%(now)s::timestamptz, statement_timestamp()), false, %(child)s::bigint, %(name)s::text,
         %(branch)s::text
    from fenced
   where not exists (select from cycle)
  on conflict (job, name) do nothing
)
select run, (select path from cycle) as cycle from fenced
