-- Delete the oldest log lines of runs that have written more than is kept of one: those up to a number. Leans on the primary key of
-- run_log. Answers how many rows were deleted.
with trimmed as (
  delete from {schema}.run_log
   where ctid = any(array(
           select l.ctid
             from unnest(%(jobs)s::bigint[], %(runs)s::bigint[], %(lasts)s::int[]) as a (job, run, last)
            cross join lateral (
              select ctid from {schema}.run_log where job = a.job and run = a.run and last <= a.last offset 0) l))
  returning 1
)
select count(*)::int from trimmed
