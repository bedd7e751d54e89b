-- Give jobs that have not ended their unique keys. One that another job holds by now stays with that one.
-- Leans on the primary keys of job, ledger and unique_key. Answers the jobs that hold theirs now.
insert into {schema}.unique_key (queue, key, job)
select j.queue, j.unique_key, j.id
  from unnest(%(jobs)s::bigint[]) as a (job)
 cross join lateral (
   select id, queue, unique_key from {schema}.job where id = a.job and unique_key is not null for key share) j
 where not exists (select from {schema}.ledger l where l.job = j.id and l.is_final::int = 1 offset 0)
 order by j.queue, j.unique_key, j.id
on conflict (queue, key) do nothing
returning job
