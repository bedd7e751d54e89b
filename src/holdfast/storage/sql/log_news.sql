-- Kept log lines of jobs, of each behind line %(lasts)s of run %(runs)s and written since %(since)s (NULL: all), up to %(limit)s rows of each job, oldest first, each of
-- several lines. Leans on the primary key of run_log. Locks nothing.
select a.job, l.run, l.first, l.lines::text
  from unnest(%(jobs)s::bigint[], %(runs)s::bigint[], %(lasts)s::int[]) as a (job, run, last)
 cross join lateral (
   select run, first, lines
     from {schema}.run_log
    where job = a.job and (run, last) > (a.run, a.last)
      and written_at >= coalesce(%(since)s::timestamptz, '-infinity')
    order by run, last
    limit %(limit)s::int) l
