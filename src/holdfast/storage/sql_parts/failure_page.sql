-- A part of failure_list_*.sql: a page of the groups in `scanned`, with the counts of each, by {key} and fingerprint, both descending. A group that
-- has not failed so is shown if `scanned` says so. With %(before_runs)s the page begins behind the group that failed so often.
-- Always answers a row: without a fingerprint, with how many groups were read and the last of them, when none matches.
page as materialized (
  select g.fingerprint, g.first_seen_at, g.last_seen_at, g.job, g.run, g.kind, g.queue, g.code, g.type, g.message, g.frame,
         c.last_hour, c.last_day, c.last_week, c.runs, c.kinds, c.queues
    from clock, scanned g
   cross join lateral {part failure_counts} c
   where (c.runs > 0 or g.is_shown_without_runs)
     and (%(before_runs)s::bigint is null or (c.runs, g.fingerprint) < (%(before_runs)s::bigint, %(before_fingerprint)s::text))
   order by {key} desc, g.fingerprint desc
   limit %(limit)s::int
)
select p.fingerprint, p.first_seen_at, p.last_seen_at, p.job, p.run, p.kind, p.queue, p.code, p.type, p.message, p.frame,
       p.last_hour, p.last_day, p.last_week, p.runs, p.kinds, p.queues, x.scanned, l.last_seen_at as last_scanned_at, l.fingerprint as last_scanned,
       clock.now
  from clock
 cross join (select count(*)::int as scanned from scanned) x
  left join (select last_seen_at, fingerprint from scanned order by last_seen_at, fingerprint limit 1) l on true
  left join page p on true
 order by p.{key} desc, p.fingerprint desc
