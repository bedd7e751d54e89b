-- A page of the members of groups, and of the jobs that follow them, by the primary key of group_member.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select m.job, true as is_wanted, 1 as rows
    from (select distinct o.job
            from unnest(%(groups)s::bigint[]) as asked (job_group)
           cross join lateral (select job from {schema}.group_member where job_group = asked.job_group offset 0) o
           where o.job < coalesce(%(before)s::bigint, 9223372036854775807)) m
   order by m.job desc
   limit %(window)s::int
), {part listed_jobs}
