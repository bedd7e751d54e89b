-- One group of failures with its counts, by its key. No row: there is no such group (any more). Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select g.fingerprint, g.first_seen_at, g.last_seen_at, g.job, g.run, g.kind, g.queue, g.code, g.type, g.message, g.frame,
       c.last_hour, c.last_day, c.last_week, c.runs, c.kinds, c.queues, 1 as scanned,
       g.last_seen_at as last_scanned_at, g.fingerprint as last_scanned, clock.now
  from clock
 cross join (
   select fingerprint, first_seen_at, last_seen_at, job, run, kind, queue, code, type, message, frame
     from {schema}.failure_group
    -- Not by =, for which the index on last_seen_at could be read from end to end.
    where fingerprint >= %(fingerprint)s::text and fingerprint <= %(fingerprint)s::text
    order by fingerprint
    limit 1) g
 cross join lateral {part failure_counts} c
