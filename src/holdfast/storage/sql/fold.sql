-- Fold up to %(limit)s tallies into the counters of their minute and hour, and their runs into what began in a minute and hour;
-- and as many tallies of jobs that were kept for no time, as jobs that were enqueued.
-- Looks from %(since)s and %(since_enqueued)s on, as promote does, and skips locked rows, so that two leaders fold each tally once.
-- Writes in the order of keys. Numbers that no worker counts are clamped: a row damaged by hand overflows no sum.
-- Answers how many of both, and the last id seen of each.
with picked as materialized (
  select id, ctid as place
    from {schema}.tally
   where id >= coalesce(%(since)s::bigint, 0)
   order by id
   limit %(limit)s::int
     for update skip locked
), taken as materialized (
  delete from {schema}.tally t using picked p where t.ctid = p.place
  returning t.id, {part clamped_time time=t.minute} as minute, {part clamped_time time=t.began} as began,
            t.queue, t.kind, t.outcome, least(greatest(t.runs, 0), 1000000000000) as runs,
            least(greatest(t.run_time, interval '0'), interval '36525 days') as run_time,
            least(greatest(t.wait_time, interval '0'), interval '36525 days') as wait_time, t.shares, t.wait_buckets, t.run_buckets
), spans as materialized (
  select s.is_hour, s.at, t.queue, t.kind, t.outcome, t.runs, t.run_time, t.wait_time, t.shares, t.wait_buckets, t.run_buckets
    from taken t
   cross join lateral (values (false, t.minute), (true, {part hour_of time=t.minute})) as s (is_hour, at)
), sums as materialized (
  select is_hour, at, queue, kind, outcome, sum(runs) as runs, sum(run_time) as run_time,
         coalesce(sum(wait_time), interval '0') as wait_time
    from spans
   group by 1, 2, 3, 4, 5
), waited as materialized ({part folded_buckets what=wait}), ran as materialized ({part folded_buckets what=run}), ends as materialized (
  select s.is_hour, s.at, s.queue, s.kind, s.outcome, s.runs, s.run_time, s.wait_time,
         coalesce(w.buckets, '{}') as wait_buckets, coalesce(w.counts, '{}') as wait_counts,
         coalesce(r.buckets, '{}') as run_buckets, coalesce(r.counts, '{}') as run_counts
    from sums s
    left join waited w using (is_hour, at, queue, kind, outcome)
    left join ran r using (is_hour, at, queue, kind, outcome)
), minutes as (
  insert into {schema}.counter as c
         (minute, queue, kind, outcome, runs, run_time, wait_time, wait_buckets, wait_counts, run_buckets, run_counts)
  select at, queue, kind, outcome, runs, run_time, wait_time, wait_buckets, wait_counts, run_buckets, run_counts
    from ends
   where not is_hour
   order by 1, 2, 3, 4
  on conflict (minute, queue, kind, outcome) do update set {part added_up}
), hours as (
  insert into {schema}.counter_hour as c
         (hour, queue, kind, outcome, runs, run_time, wait_time, wait_buckets, wait_counts, run_buckets, run_counts)
  select at, queue, kind, outcome, runs, run_time, wait_time, wait_buckets, wait_counts, run_buckets, run_counts
    from ends
   where is_hour
   order by 1, 2, 3, 4
  on conflict (hour, queue, kind, outcome) do update set {part added_up}
), picked_enqueued as materialized (
  select id, ctid as place
    from {schema}.enqueue_tally
   where id >= coalesce(%(since_enqueued)s::bigint, 0)
   order by id
   limit %(limit)s::int
     for update skip locked
), enqueued as (
  delete from {schema}.enqueue_tally t using picked_enqueued p where t.ctid = p.place
  returning {part clamped_time time=t.minute} as minute, t.queue, t.kind, least(greatest(t.enqueued, 0), 1000000000000) as enqueued
), begun as materialized (
  select began as minute, queue, kind, 0 as enqueued, runs as started from taken where began is not null
  union all
  select minute, queue, kind, enqueued, 0 from enqueued
), {part beginnings}
select (select count(*) from picked)::int as folded, (select max(id) from picked) as seen,
       (select count(*) from picked_enqueued)::int as folded_enqueued, (select max(id) from picked_enqueued) as seen_enqueued
