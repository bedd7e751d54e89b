-- A page of the jobs that schedules have fired, by the primary key of plan, latest plans first.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select p.job, true as is_wanted, 1 as rows
    from (select distinct f.job
            from unnest(%(schedules)s::text[]) as named (schedule)
           cross join lateral (
             select job from {schema}.plan
              where schedule = named.schedule and job < coalesce(%(before)s::bigint, 9223372036854775807)
              order by plan_time desc
              limit %(window)s::int) f) p
   order by p.job desc
   limit %(window)s::int
), {part listed_jobs}
