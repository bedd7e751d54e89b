-- Fold up to %(limit)s tallies into the counters of their minute. Looks from %(since)s on, as promote does, and
-- skips locked rows, so that two leaders fold each tally once. Numbers that no worker counts are clamped: a row damaged
-- by hand overflows no sum. Answers how many, and the last id seen.
with picked as materialized (
  select id, ctid as place
    from {schema}.tally
   where id >= coalesce(%(since)s::bigint, 0)
   order by id
   limit %(limit)s::int
     for update skip locked
), taken as (
  delete from {schema}.tally t using picked p where t.ctid = p.place
  returning t.minute, t.queue, t.kind, t.outcome, t.runs, t.run_time
), added as (
  insert into {schema}.counter as c (minute, queue, kind, outcome, runs, run_time)
  select minute, queue, kind, outcome, sum(least(greatest(runs, 0), 1000000000000)),
         sum(least(greatest(run_time, interval '0'), interval '36525 days'))
    from taken
   group by minute, queue, kind, outcome
   order by minute, queue, kind, outcome
  on conflict (minute, queue, kind, outcome) do update
     set runs = least(greatest(c.runs, 0), 1000000000000000000) + excluded.runs,
         run_time = least(greatest(c.run_time, interval '0'), interval '36525000 days') + excluded.run_time
)
select count(*)::int, max(id) from picked
