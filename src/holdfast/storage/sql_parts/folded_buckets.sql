-- The buckets of {what} lengths of all tallies in `spans`, with their runs: one pair of arrays for each counter.
select is_hour, at, queue, kind, outcome, array_agg(bucket order by bucket) as buckets, array_agg(runs order by bucket) as counts
  from (select t.is_hour, t.at, t.queue, t.kind, t.outcome, u.bucket, least(sum(u.runs), 2147483647)::int as runs
          from spans t, unnest(t.{what}_buckets, t.shares) as u (bucket, runs)
         where u.bucket between -100 and 200 and u.runs > 0
         group by 1, 2, 3, 4, 5, 6) b
 group by 1, 2, 3, 4, 5
