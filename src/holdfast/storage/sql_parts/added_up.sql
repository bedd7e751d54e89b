-- What is folded into a counter `c` that is there: sums, and the counts of each bucket.
runs = least(greatest(c.runs, 0), 1000000000000000000) + excluded.runs,
run_time = least(greatest(c.run_time, interval '0'), interval '36525000 days') + excluded.run_time,
wait_time = least(greatest(c.wait_time, interval '0'), interval '36525000 days') + excluded.wait_time,
(wait_buckets, wait_counts) = ({part added_buckets what=wait}),
(run_buckets, run_counts) = ({part added_buckets what=run})
