-- Figures of {ends} and {beginnings} from the %(since)s before %(until)s (NULL: now) on, of a queue and a kind if they are given: for each
-- piece of %(resolution)s, for each queue and for each kind. The first piece is whole, so that it begins before the time asked for; the
-- last one is the minute that has just begun, unless %(until)s is given.
-- What a row tells is in `what`: an outcome (how many runs, how long they took and waited, all together), `wait` and `run` (counts[n] of these
-- lengths are in buckets[n]), `begun` (as runs the jobs that were enqueued, and the runs that started; those that still run are read from
-- lease). Of `at`, `queue` and `kind` one is set. The rows `since`, `until` and `clock` only have `at`.
-- Reads the range along the primary keys, and all of lease, which has a row for each slot in use. Locks nothing.
with clock as materialized (
  select now, coalesce(%(until)s::timestamptz, now + interval '1 microsecond') as until,
         date_bin(%(resolution)s::interval, coalesce(%(until)s::timestamptz, now) - %(since)s::interval,
                  timestamptz '2000-01-01 00:00:00Z') as since
    from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) c
), ends as materialized (
  select date_bin(%(resolution)s::interval, {time}, timestamptz '2000-01-01 00:00:00Z') as at, queue, kind, outcome, runs, run_time,
         wait_time, wait_buckets, wait_counts, run_buckets, run_counts
    from {schema}.{ends}
   where {time} >= (select since from clock) and {time} < (select until from clock)
     and (%(queue)s::text is null or queue = %(queue)s::text) and (%(kind)s::text is null or kind = %(kind)s::text)
), begun as materialized (
  select date_bin(%(resolution)s::interval, {time}, timestamptz '2000-01-01 00:00:00Z') as at, queue, kind, enqueued, started
    from {schema}.{beginnings}
   where {time} >= (select since from clock) and {time} < (select until from clock)
     and (%(queue)s::text is null or queue = %(queue)s::text) and (%(kind)s::text is null or kind = %(kind)s::text)
  union all
  select date_bin(%(resolution)s::interval, started_at, timestamptz '2000-01-01 00:00:00Z'), queue, kind, 0, count(*)
    from {schema}.lease
   where started_at >= (select since from clock) and started_at < (select until from clock)
     and queue is not null and kind is not null
     and (%(queue)s::text is null or queue = %(queue)s::text) and (%(kind)s::text is null or kind = %(kind)s::text)
   group by 1, 2, 3
), alike as (
  select at, queue, kind, outcome::text as what, sum(runs)::bigint as runs, 0::bigint as started, sum(run_time) as took,
         sum(wait_time) as waited, null::smallint[] as buckets, null::bigint[] as counts
    from ends
   group by grouping sets ((at, outcome), (queue, outcome), (kind, outcome))
  union all
  {part spread_of what=wait}
  union all
  {part spread_of what=run}
  union all
  select b.at, b.queue, b.kind, 'begun', sum(b.enqueued)::bigint, sum(b.started)::bigint, null, null, null, null
    from begun b
   group by grouping sets ((b.at), (b.queue), (b.kind))
)
select t.at, null::text as queue, null::text as kind, t.what, 0::bigint as runs, 0::bigint as started, null::interval as took,
       null::interval as waited, null::smallint[] as buckets, null::bigint[] as counts
  from clock, unnest(array[since, until, now], array['since', 'until', 'clock']) as t (at, what)
union all
select at, queue, kind, what, runs, started, took, waited, buckets, counts from alike
