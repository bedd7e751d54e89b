-- Keep what runs have to say on their way, one element of each array for each run: a state that survives retries,
-- how far they have come. NULL leaves what was there.
-- The fence is (worker, job, run) still in lease, locked so that no rescue takes the run away meanwhile. Answers the
-- runs that were taken; one that is missing has lost its lease, and nothing of it was written.
with fenced as materialized (
  select a.job, a.run, a.state, a.progress
    from (select * from unnest(
            %(workers)s::bigint[], %(jobs)s::bigint[], %(runs)s::bigint[], %(states)s::text[], %(progresses)s::text[]
          ) as asked (worker, job, run, state, progress)
           order by job) a
   {part locked_lease}
), written as (
  insert into {schema}.saved as s (job, saved_at, state, progress)
  select job, coalesce(%(now)s::timestamptz, statement_timestamp()), state::jsonb, progress::jsonb from fenced
  on conflict (job) do update
     set saved_at = excluded.saved_at,
         state = coalesce(excluded.state, s.state),
         progress = coalesce(excluded.progress, s.progress)
)
select run from fenced
