-- How many {what} lengths of `ends` are in each bucket: for each piece of time, each queue and each kind, in arrays. Nothing unless
-- %(has_spreads)s: it is what takes longest.
-- unnest stands beside the columns: as a table of its own it is set up anew for each row, which takes longer than all the rest.
select s.at, s.queue, s.kind, '{what}', 0, 0, null, null, array_agg(s.bucket), array_agg(s.runs)
  from (select e.at, e.queue, e.kind, e.bucket, sum(e.runs)::bigint as runs
          from (select at, queue, kind, unnest({what}_buckets) as bucket, unnest({what}_counts) as runs
                  from ends
                 where %(has_spreads)s::boolean) e
         where e.bucket is not null and e.runs > 0
         group by grouping sets ((e.at, e.bucket), (e.queue, e.bucket), (e.kind, e.bucket))) s
 group by s.at, s.queue, s.kind
