-- Give jobs that are in no table a place again, so that a verb finds them: their row was deleted by hand. They are
-- scheduled a hundred years ahead, with the attempts that the ledger knows of: this runs nothing by itself.
-- A job that is only moving from one place to another is in one of them in a snapshot of this statement's own. In an older
-- one, of a caller's stricter transaction, it may be in none: its segment of ready was truncated since, which no snapshot
-- remembers. So nothing is placed there. Locks nothing; leans on the keys of all places but lease, of which there are as
-- many as jobs that run. Answers the jobs that have a place now.
insert into {schema}.scheduled (job, run_at, deadline_at, attempt)
select j.id, coalesce(%(now)s::timestamptz, statement_timestamp()) + interval '36525 days', j.deadline_at,
       coalesce((select l.attempt from {schema}.ledger l where l.job = j.id order by l.run desc limit 1), 0)
  from unnest(%(jobs)s::bigint[]) as a (job)
 cross join lateral (select id, queue, deadline_at from {schema}.job where id = a.job offset 0) j
 where current_setting('transaction_isolation') in ('read committed', 'read uncommitted')
   and not exists (
         select from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as p (priority), {schema}.ready r
          where r.queue = j.queue and r.priority = p.priority and r.job = j.id)
   and not exists (select from {schema}.scheduled s where s.job = j.id)
   and not exists (select from {schema}.waiting w where w.job = j.id)
   and not exists (select from {schema}.lease l where l.job = j.id)
   and not exists (select from {schema}.ledger f where f.job = j.id and f.is_final)
on conflict (job) do nothing
returning job
