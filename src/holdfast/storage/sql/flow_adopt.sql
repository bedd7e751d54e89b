-- Let a flow wait for a job that it has not begun: an open call in its checkpoints, and the flow as the job's parent, if
-- it has none yet, so that its end wakes the flow. A settle of that job which has begun before does not know of us: the
-- sweep finds its end. The fence is (worker, job, run) in lease. No row: the lease is lost, and nothing was written.
with fenced as materialized (
  select job, run from {schema}.lease
   where worker = %(worker)s::bigint and job = %(job)s::bigint and run = %(run)s::bigint
     for no key update
), adopted as (
  update {schema}.job set parent = %(job)s::bigint
   where id = %(child)s::bigint and parent is null and exists (select from fenced)
), called as (
  insert into {schema}.checkpoint (job, name, kind, place, code, written_at, is_done, child, bunch, branch)
  select %(job)s::bigint, %(name)s::text, 'call', %(place)s::int, %(code)s::bigint,
         coalesce(%(now)s::timestamptz, statement_timestamp()), false, %(child)s::bigint, %(name)s::text,
         %(branch)s::text
    from fenced
  on conflict (job, name) do nothing
)
select run from fenced
