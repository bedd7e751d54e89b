-- A page of the dead letters of groups of failures, by the index dead_fingerprint, each group by itself;
-- failure_dead.sql says why rows are compared.
-- Reads only the first %(window)s of them before %(before)s, so the cost is bounded, whatever matches, and the next page continues
-- there. sql_parts/listed_jobs.sql decides what a page shows. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select d.job, true as is_wanted, 1 as rows
    from unnest(%(failures)s::text[]) as asked (fingerprint)
   cross join lateral (
     select job from {schema}.dead
      where fingerprint is not null
        and (fingerprint, job) < (asked.fingerprint, coalesce(%(before)s::bigint, 9223372036854775807))
        and (fingerprint, job) >= (asked.fingerprint, 0)
      order by fingerprint desc, job desc
      limit %(window)s::int) d
   order by d.job desc
   limit %(window)s::int
), {part listed_jobs}
