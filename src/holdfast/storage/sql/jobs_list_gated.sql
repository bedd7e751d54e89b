-- A page of the jobs that wait at a gate for a permit. Steps from one queue to the next along the primary key of ready_gated; of each
-- queue and priority the latest jobs.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), waiting_queue (queue) as (
  (select queue from {schema}.ready_gated order by queue limit 1)
  union all
  select n.queue
    from waiting_queue q
   cross join lateral (select queue from {schema}.ready_gated where queue > q.queue order by queue limit 1) n
), scanned as materialized (
  select r.job, %(kinds)s::text[] is null or r.kind = any(%(kinds)s::text[]) as is_wanted, 1 as rows
    from (select queue from waiting_queue
           where %(queues)s::text[] is null or queue = any(%(queues)s::text[])
           limit 1000) q
   cross join unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
   cross join lateral (
     select job, kind from {schema}.ready_gated
      where queue = q.queue and priority = level.priority
        and job < coalesce(%(before)s::bigint, 9223372036854775807)
      order by job desc
      limit %(window)s::int) r
   order by r.job desc
   limit %(window)s::int
), {part listed_jobs}
