-- A page of the jobs that run, of each worker by the primary key of lease.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select l.job, true as is_wanted, 1 as rows
    from {schema}.worker k
   cross join lateral (
     select job from {schema}.lease
      where worker = k.id and job < coalesce(%(before)s::bigint, 9223372036854775807)
      order by job desc
      limit %(window)s::int) l
   where %(workers)s::bigint[] is null or k.id = any(%(workers)s::bigint[])
   order by l.job desc
   limit %(window)s::int
), {part listed_jobs}
