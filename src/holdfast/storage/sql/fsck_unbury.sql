-- Delete dead letters of jobs that have not failed for good, or are gone.
-- Locks them, skipping locked ones. Leans on the primary keys of dead and ledger. Answers the jobs.
with picked as materialized (
  select d.ctid as place
    from {schema}.dead d
   where d.job = any(%(jobs)s::bigint[])
     and not exists (select from {schema}.ledger l where l.job = d.job and l.is_final::int = 1 and l.outcome = 'failed' offset 0)
   order by d.job
     for update skip locked
)
delete from {schema}.dead where ctid = any(array(select place from picked)) returning job
