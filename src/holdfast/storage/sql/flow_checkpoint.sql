-- Store the results of steps, one element of each array per step; an array is NULL if no step has a value for it.
-- The fence is (worker, job, run) still in lease, locked so that no rescue takes the run away meanwhile. A checkpoint that
-- is done stays as it is: sent again after a lost reply, the answer is the same.
-- Answers the runs that were taken; one that is missing has lost its lease, and nothing of it was written.
with fenced as materialized (
  select a.job, a.run, a.name, a.kind, a.place, a.code, a.value, a.error, a.failures, a.branch
    from (select * from unnest(
            %(workers)s::text::bigint[], %(jobs)s::text::bigint[], %(runs)s::text::bigint[], %(names)s::text::text[],
            %(kinds)s::text::text[], %(places)s::text::int[], %(codes)s::text::bigint[], %(values)s::text::text[],
            %(errors)s::text::text[], %(failures)s::text::smallint[], %(branches)s::text::text[]
          ) as asked (worker, job, run, name, kind, place, code, value, error, failures, branch)
           order by job) a
   {part locked_lease}
), written as (
  insert into {schema}.checkpoint as c (job, name, kind, place, code, written_at, is_done, failures, value, error, branch)
  select job, name, kind, place, code, coalesce(%(now)s::timestamptz, statement_timestamp()), true,
         coalesce(failures, 0), value::jsonb, error::jsonb, branch
    from fenced
  {part checkpoint_kept_once}
)
select run from fenced
