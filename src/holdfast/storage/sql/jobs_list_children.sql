-- A page of the jobs that flows have called, by the primary key of checkpoint.
-- The first %(window)s of them before %(before)s are looked at: so the cost is bounded, whatever matches, and the next page goes on
-- from there. What a page shows of them says sql_parts/listed_jobs.sql. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select c.job, true as is_wanted, 1 as rows
    from (select distinct child as job from {schema}.checkpoint
           where job = any(%(flows)s::bigint[]) and child < coalesce(%(before)s::bigint, 9223372036854775807)) c
   order by c.job desc
   limit %(window)s::int
), {part listed_jobs}
