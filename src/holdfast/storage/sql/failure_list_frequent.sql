-- A page of the groups of failures that were seen since %(since)s ago, the one that failed most often since then first, of %(kind)s and
-- %(queue)s if they are given. Compares the %(window)s groups that were seen last, by failure_group_last_seen_at, and reads the counts of
-- each, so the cost is bounded. sql_parts/failure_page.sql makes the page. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select fingerprint, first_seen_at, last_seen_at, job, run, kind, queue, code, type, message, frame, false as is_shown_without_runs
    from {schema}.failure_group
   where last_seen_at >= (select now from clock) - %(since)s::interval
   order by last_seen_at desc, fingerprint desc
   limit %(window)s::int
), {part failure_page key=runs}
