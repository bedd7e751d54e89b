-- Remember which jobs have lost their unique keys to newer ones, so that they are not run again, unless they have ended.
-- Locks nothing of others'; leans on the primary keys of ledger and superseded. Answers the jobs.
insert into {schema}.superseded (job, by)
select a.job, a.by
  from unnest(%(jobs)s::text::bigint[], %(by)s::text::bigint[]) as a (job, by)
 where not exists (select from {schema}.ledger l where l.job = a.job and l.is_final::int = 1 offset 0)
on conflict (job) do nothing
returning job
