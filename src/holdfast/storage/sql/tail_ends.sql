-- The jobs that have ended since %(since)s: the newest %(limit)s of each length of time in %(keeps)s for which jobs are kept. The ledger has no
-- order by the end of its runs, which would cost every settle; what it is pruned by, the end and that length, serves as well.
-- Leans on ledger_keep_until. Locks nothing. A job that is kept for another length is missing.
select e.job
  from unnest(%(keeps)s::interval[]) as k (keep)
 cross join lateral (
   select job
     from {schema}.ledger
    where is_final and keep_until >= %(since)s::timestamptz + k.keep
      and keep_until <= coalesce(%(now)s::timestamptz, statement_timestamp()) + k.keep
    order by keep_until desc
    limit %(limit)s::int) e
