-- Count the runs in {runs} (queue, kind, started_at) for this minute, by outcome, queue and kind. {outcome} is a column of
-- theirs or one word for all. Only inserts: the leader folds what was counted.
-- A started_at that was damaged by hand counts as no time, or as the time since 1900: the sum stays an interval.
counted as (
  insert into {schema}.tally (minute, outcome, queue, kind, runs, run_time)
  select date_trunc('minute', clock.now), t.outcome, t.queue, t.kind, t.runs, t.run_time
    from clock,
         lateral (select {outcome}::{schema}.outcome as outcome, queue, kind, count(*) as runs,
                         sum(clock.now - least(greatest(started_at, timestamptz '1900-01-01 00:00:00Z'), clock.now)) as run_time
                    from {runs}
                   group by 1, 2, 3) t
)
