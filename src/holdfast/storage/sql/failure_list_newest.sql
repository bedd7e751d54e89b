-- A page of the groups of failures that were seen since %(since)s ago, the one that was seen last first, of %(kind)s and %(queue)s if they
-- are given. Reads the first %(window)s groups behind the one that was seen at %(before)s, by failure_group_last_seen_at, and the counts
-- of each, so the cost is bounded, whatever matches. sql_parts/failure_page.sql makes the page. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select fingerprint, first_seen_at, last_seen_at, job, run, kind, queue, code, type, message, frame,
         %(kind)s::text is null and %(queue)s::text is null as is_shown_without_runs
    from {schema}.failure_group
   where last_seen_at >= (select now from clock) - %(since)s::interval
     and (last_seen_at, fingerprint) < (coalesce(%(before)s::timestamptz, 'infinity'), coalesce(%(before_fingerprint)s::text, ''))
   order by last_seen_at desc, fingerprint desc
   limit %(window)s::int
), {part failure_page key=last_seen_at}
