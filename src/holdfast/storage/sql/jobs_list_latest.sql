-- A page of the latest jobs, by their primary key. What their own row tells is judged in the same scan: looking
-- each of them up takes three times as long.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select j.id as job,
         (%(kinds)s::text[] is null or j.kind = any(%(kinds)s::text[]))
         and (%(queues)s::text[] is null or j.queue = any(%(queues)s::text[]))
         and (%(tags)s::text[] is null or j.tags @> %(tags)s::text[])
         and j.priority between coalesce(%(priority_from)s::int, 0) and coalesce(%(priority_until)s::int, 32767)
         and {part args_match args=j.args kind=j.kind} as is_wanted, 1 as rows
    from {schema}.job j
   where j.id < coalesce(%(before)s::bigint, 9223372036854775807)
   order by j.id desc
   limit %(window)s::int
), {part listed_jobs}
