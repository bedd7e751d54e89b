-- The buckets of {what} lengths of a counter `c` and of what is folded into it.
select coalesce(array_agg(bucket order by bucket), '{}'), coalesce(array_agg(runs order by bucket), '{}')
  from (select u.bucket, least(sum(u.runs), 2147483647)::int as runs
          from (select * from unnest(c.{what}_buckets, c.{what}_counts)
                union all
                select * from unnest(excluded.{what}_buckets, excluded.{what}_counts)) as u (bucket, runs)
         where u.bucket between -100 and 200 and u.runs > 0
         group by u.bucket) b
