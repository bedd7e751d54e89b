-- Fold up to %(limit)s tallies of failures into the counts of their ten minutes, and into their groups. Looks from %(since)s on and
-- skips locked rows, as fold does, so that two leaders fold each tally once. Writes in the order of keys, so that they do not deadlock.
-- A row damaged by hand overflows no sum and no time. Answers how many, and the last id seen.
with picked as materialized (
  select id, ctid as place
    from {schema}.failure_tally
   where id >= coalesce(%(since)s::bigint, 0)
   order by id
   limit %(limit)s::int
     for update skip locked
), taken as materialized (
  delete from {schema}.failure_tally t using picked p where t.ctid = p.place
  returning t.id, least(greatest(t.seen_at, timestamptz '1900-01-01 00:00:00Z'), timestamptz '9000-01-01 00:00:00Z') as seen_at,
            t.job, t.run, least(greatest(t.runs, 0), 1000000000000) as runs, left(t.fingerprint, 200) as fingerprint,
            t.kind, t.queue, t.code, t.type, t.message, t.frame
), counted as (
  insert into {schema}.failure_count as c (fingerprint, began_at, kind, queue, runs)
  select fingerprint, date_bin(interval '10 minutes', seen_at, timestamptz '2000-01-01 00:00:00Z') as began_at, left(kind, 200), left(queue, 200),
         sum(runs)
    from taken
   group by 1, 2, 3, 4
   order by 1, 2, 3, 4
  on conflict (fingerprint, began_at, kind, queue) do update
     set runs = least(greatest(c.runs, 0), 1000000000000000000) + excluded.runs
), grouped as (
  insert into {schema}.failure_group as g
         (fingerprint, first_seen_at, last_seen_at, job, run, kind, queue, code, type, message, frame)
  select distinct on (fingerprint)
         fingerprint, min(seen_at) over (partition by fingerprint), max(seen_at) over (partition by fingerprint),
         job, run, kind, queue, code, type, message, frame
    from taken
   order by fingerprint, id desc
  on conflict (fingerprint) do update
     set first_seen_at = least(g.first_seen_at, excluded.first_seen_at),
         last_seen_at = greatest(g.last_seen_at, excluded.last_seen_at),
         job = excluded.job, run = excluded.run, kind = excluded.kind, queue = excluded.queue, code = excluded.code,
         type = excluded.type, message = excluded.message, frame = excluded.frame
)
select count(*)::int, max(id) from picked
