-- Since when debounced jobs have been put off that have not begun: no run of them has ended or is under way, and they are no flow that has
-- done a step. A new job that takes over the key of such a one, as it was moving, is bound by the same max_wait.
-- Locks nothing; leans on primary keys. Answers the jobs with the time; of a job that is missing there is none.
select j.id as job, j.debounced_since as since
  from unnest(%(jobs)s::text::bigint[]) as a (job)
 cross join lateral (select id, debounced_since from {schema}.job where id = a.job offset 0) j
 where j.debounced_since is not null
   and not exists (select from {schema}.ledger l where l.job = j.id offset 0)
   and not exists (select from {schema}.checkpoint c where c.job = j.id offset 0)
   and not exists (
         select from {schema}.worker w
          cross join lateral (select from {schema}.lease where worker = w.id and job = j.id offset 0) l)
