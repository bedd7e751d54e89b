-- Keep what steps have come to, one element of each array for each of them; an array that is NULL says nothing.
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
   cross join lateral (
     select from {schema}.lease
      where worker = a.worker and job = a.job and run = a.run
        for no key update) l
), written as (
  insert into {schema}.checkpoint as c (job, name, kind, place, code, written_at, is_done, failures, value, error, branch)
  select job, name, kind, place, code, coalesce(%(now)s::timestamptz, statement_timestamp()), true,
         coalesce(failures, 0), value::jsonb, error::jsonb, branch
    from fenced
  on conflict (job, name) do update
     set is_done = true, written_at = excluded.written_at, until = null, failures = excluded.failures,
         value = excluded.value, error = excluded.error
   where not c.is_done
)
select run from fenced
