-- Delete unique keys of jobs that are gone or have ended, unless they are held for a time that is not over.
-- Locks them, skipping locked ones: an enqueue is taking such a key over. Leans on unique_key_job. Answers the jobs.
with picked as materialized (
  select k.ctid as place
    from {schema}.unique_key k
   where k.job = any(%(jobs)s::bigint[]) and (k.until is null or k.until <= coalesce(%(now)s::timestamptz, statement_timestamp()))
     and (not exists (select from {schema}.job j where j.id = k.job offset 0)
          or exists (select from {schema}.ledger l where l.job = k.job and l.is_final::int = 1 offset 0))
   order by k.job
     for update skip locked
)
delete from {schema}.unique_key where ctid = any(array(select place from picked)) returning job
