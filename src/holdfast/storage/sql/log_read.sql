-- The kept log lines of one job, or of one of its runs, behind line %(after_last)s of run %(after_run)s, oldest first: rows enough for %(limit)s lines,
-- each of several. Leans on the primary key of run_log: rows are compared, so that it is read from that place on. Locks nothing.
with looked as materialized (
  select run, first, last, lines,
         last - greatest(first, case when run = %(after_run)s::bigint then %(after_last)s::int + 1 else 0 end) + 1 as number
    from {schema}.run_log
   where job = %(job)s::bigint
     and (run, last) > (%(after_run)s::bigint, %(after_last)s::int)
     and run between coalesce(%(run)s::bigint, 0) and coalesce(%(run)s::bigint, 9223372036854775807)
   order by run, last
   limit %(limit)s::int
), counted as (
  select run, first, last, lines, sum(number) over (order by run, last) - number as before from looked
)
select run, first, lines::text from counted where before < %(limit)s::int order by run, last
