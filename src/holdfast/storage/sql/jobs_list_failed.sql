-- A page of the dead letters, by the primary key of dead. What the last run tells is judged here, before the jobs
-- are looked up.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select d.job,
         (%(kinds)s::text[] is null or l.kind = any(%(kinds)s::text[]))
         and (%(queues)s::text[] is null or l.queue = any(%(queues)s::text[]))
         and (%(errors)s::text[] is null
              or not exists (select from unnest(%(errors)s::text[]) as wanted (text)
                              where position(lower(wanted.text) in lower(concat_ws(': ', l.error ->> 'type', l.error ->> 'message'))) = 0)) as is_wanted, 1 as rows
    from (select job, run from {schema}.dead
           where job < coalesce(%(before)s::bigint, 9223372036854775807)
           order by job desc
           limit %(window)s::int) d
   cross join lateral (
     select kind, queue, error from {schema}.ledger where job = d.job and run = d.run offset 0) l
), {part listed_jobs}
