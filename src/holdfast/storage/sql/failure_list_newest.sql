-- A page of the groups of failures that were seen since %(since)s ago, the one that was seen last first, of %(kind)s and %(queue)s if they
-- are given. Reads the first %(window)s groups behind the one that was seen at %(before)s, by failure_group_last_seen_at, and the counts
-- of each, so the cost is bounded, whatever matches. Locks nothing.
-- Always answers a row: without a fingerprint, with how many groups were read and the last of them, when none matches.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select fingerprint, first_seen_at, last_seen_at, job, run, kind, queue, code, type, message, frame
    from {schema}.failure_group
   where last_seen_at >= (select now from clock) - %(since)s::interval
     and (last_seen_at, fingerprint) < (coalesce(%(before)s::timestamptz, 'infinity'), coalesce(%(before_fingerprint)s::text, ''))
   order by last_seen_at desc, fingerprint desc
   limit %(window)s::int
), page as materialized (
  select g.fingerprint, g.first_seen_at, g.last_seen_at, g.job, g.run, g.kind, g.queue, g.code, g.type, g.message, g.frame,
         c.last_hour, c.last_day, c.last_week, c.runs, c.kinds, c.queues
    from clock, scanned g
   cross join lateral {part failure_counts} c
   where c.runs > 0 or %(kind)s::text is null and %(queue)s::text is null
   order by g.last_seen_at desc, g.fingerprint desc
   limit %(limit)s::int
)
select p.fingerprint, p.first_seen_at, p.last_seen_at, p.job, p.run, p.kind, p.queue, p.code, p.type, p.message, p.frame,
       p.last_hour, p.last_day, p.last_week, p.runs, p.kinds, p.queues, x.scanned, l.last_seen_at as last_scanned_at, l.fingerprint as last_scanned,
       clock.now
  from clock
 cross join (select count(*)::int as scanned from scanned) x
  left join (select last_seen_at, fingerprint from scanned order by last_seen_at, fingerprint limit 1) l on true
  left join page p on true
 order by p.last_seen_at desc, p.fingerprint desc
