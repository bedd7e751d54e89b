-- The newest kept log lines of one job, newest first: rows enough for %(limit)s lines, each of several. Leans on the primary key of
-- run_log. Locks nothing.
with looked as materialized (
  select run, first, last, lines
    from {schema}.run_log
   where job = %(job)s::bigint
   order by run desc, last desc
   limit %(limit)s::int
), counted as (
  select run, first, last, lines, sum(last - first + 1) over (order by run desc, last desc) - (last - first + 1) as before
    from looked
)
select run, first, lines::text from counted where before < %(limit)s::int order by run desc, last desc
