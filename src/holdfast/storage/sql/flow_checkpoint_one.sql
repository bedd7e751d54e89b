-- Store the result of one step: what flow_checkpoint does, for a single flow, without unpacking arrays.
-- Fence, order of locks and answer are the same.
with fenced as materialized (
  select job, run from {schema}.lease
   where worker = %(worker)s::bigint and job = %(job)s::bigint and run = %(run)s::bigint
     for no key update
), written as (
  insert into {schema}.checkpoint as c (job, name, kind, place, code, written_at, is_done, failures, value, error, branch)
  select job, %(name)s::text, %(kind)s::text, %(place)s::int, %(code)s::bigint,
         coalesce(%(now)s::timestamptz, statement_timestamp()), true, %(failures)s::smallint,
         %(value)s::text::jsonb, %(error)s::text::jsonb, %(branch)s::text
    from fenced
  {part checkpoint_kept_once}
)
select run from fenced
