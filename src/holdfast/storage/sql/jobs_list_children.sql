-- A page of the jobs that flows have called, by the primary key of checkpoint.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select c.job, true as is_wanted, 1 as rows
    from (select distinct child as job from {schema}.checkpoint
           where job = any(%(flows)s::bigint[]) and child < coalesce(%(before)s::bigint, 9223372036854775807)) c
   order by c.job desc
   limit %(window)s::int
), {part listed_jobs}
