-- A page of the jobs that have run or ended, by the primary key of the ledger. Several runs of one job are next to
-- each other; the last of them counts.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select job, bool_or(is_wanted) as is_wanted, count(*)::int as rows
    from (select l.job,
                 (%(kinds)s::text[] is null or l.kind = any(%(kinds)s::text[]))
         and (%(queues)s::text[] is null or l.queue = any(%(queues)s::text[]))
         and {part error_holds error=l.error}
                 and (not %(is_final)s::boolean or l.is_final and l.outcome::text = any(%(states)s::text[])) as is_wanted
            from {schema}.ledger l
           where l.job < coalesce(%(before)s::bigint, 9223372036854775807)
           order by l.job desc, l.run desc
           limit %(window)s::int) runs
   group by job
), {part listed_jobs}
