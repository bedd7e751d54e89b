-- A page of the dead letters, by the primary key of dead. What their last run tells is judged here, before the jobs
-- are looked up: in one pass over the key of ledger, which takes half as long as a look-up for each.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select l.job,
         (%(kinds)s::text[] is null or l.kind = any(%(kinds)s::text[]))
         and (%(queues)s::text[] is null or l.queue = any(%(queues)s::text[]))
         and {part error_holds error=l.error} as is_wanted, 1 as rows
    from {schema}.ledger l
   where l.job = any(array(
           select job from {schema}.dead
            where job < coalesce(%(before)s::bigint, 9223372036854775807)
            order by job desc
            limit %(window)s::int))
     -- As a number: is_final alone would allow for ledger_keep_until, from end to end.
     and l.is_final::int = 1
), {part listed_jobs}
