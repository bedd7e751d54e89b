-- Count the runs in {runs} (queue, kind, ready_at, started_at) for this minute, by outcome, queue and kind, and by the minute in
-- which they began. {outcome} is a column of theirs or one word for all. Only inserts: the leader folds what was counted.
-- Runs of one claim that waited about as long are put together first: there are few such bunches, and the rest is only
-- reckoned for each of them.
counted as (
  insert into {schema}.tally
         (minute, outcome, queue, kind, runs, run_time, began, wait_time, shares, wait_buckets, run_buckets)
  select date_trunc('minute', clock.now), t.outcome, t.queue, t.kind, t.runs, make_interval(secs => t.took), t.began,
         make_interval(secs => t.waited), t.shares, t.wait_buckets, t.run_buckets
    from clock,
         lateral (
           select outcome, queue, kind, {part began} as began, sum(runs) as runs, sum(took) as took, sum(waited) as waited,
                  array_agg(runs) as shares, array_agg(wait_bucket) as wait_buckets, array_agg({part bucket seconds=took/runs}) as run_buckets
             from (select {outcome}::{schema}.outcome as outcome, queue, kind, started_at,
                          {part bucket seconds=waited} as wait_bucket, count(*)::int as runs, sum(took) as took, sum(waited) as waited
                     from {runs}, lateral (select {part lengths_of_run}) l
                    group by 1, 2, 3, 4, 5) b
            group by 1, 2, 3, 4) t
)
