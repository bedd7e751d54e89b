-- Dead jobs, newest first, a page at a time: those that died before (%(before)s, %(before_job)s).
-- Leans on dead_died_at.
select d.job, j.kind, j.queue, d.died_at, l.attempt, j.args::text, l.error::text
  from {schema}.dead d
 cross join lateral (select kind, queue, args from {schema}.job where id = d.job offset 0) j
 cross join lateral (select attempt, error from {schema}.ledger where job = d.job and run = d.run offset 0) l
 where (d.died_at, d.job) < (coalesce(%(before)s::timestamptz, 'infinity'), coalesce(%(before_job)s::bigint, 0))
   and (%(queue)s::text is null or j.queue = %(queue)s::text)
   and (%(kind)s::text is null or j.kind = %(kind)s::text)
 order by d.died_at desc, d.job desc
 limit %(limit)s::int
