-- Look at up to %(limit)s unique keys that were held for a time which is over, the earliest first: delete those of jobs that have ended
-- or are gone; one of a job that is active is from now on held until that ends, as any other. Also delete what is remembered of
-- superseded jobs that have ended.
-- Skips locked rows; leans on unique_key_until and on the primary keys of job and ledger. Reads all of superseded, in which there are only
-- jobs that are active, or were at the last look. Answers at how many keys it has looked.
with due as materialized (
  select k.ctid as place,
         not exists (select from {schema}.job j where j.id = k.job offset 0)
         or exists (select from {schema}.ledger l where l.job = k.job and l.is_final::int = 1 offset 0) as is_left
    from {schema}.unique_key k
   where k.until is not null and k.until <= coalesce(%(now)s::timestamptz, statement_timestamp())
   order by k.until
   limit %(limit)s::int
     for update skip locked
), freed as (
  delete from {schema}.unique_key where ctid = any(array(select place from due where is_left))
), kept as (
  update {schema}.unique_key set until = null where ctid = any(array(select place from due where not is_left))
), over as (
  delete from {schema}.superseded s
   where not exists (select from {schema}.job j where j.id = s.job offset 0)
      or exists (select from {schema}.ledger l where l.job = s.job and l.is_final::int = 1 offset 0)
)
select count(*)::int from due
