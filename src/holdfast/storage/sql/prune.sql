-- Delete up to %(limit)s jobs that ended and were kept as long as they asked, with all that is known of them.
-- Looks from %(since)s on (NULL: from the beginning), as promote does. Skips locked rows; leans on ledger_keep_until.
-- Answers how many, and the latest time seen: the next since.
with old as materialized (
  select job, keep_until
    from {schema}.ledger
   where is_final and keep_until <= coalesce(%(now)s::timestamptz, statement_timestamp())
     and keep_until >= coalesce(%(since)s::timestamptz, '-infinity')
   order by keep_until
   limit %(limit)s::int
     for update skip locked
), out_of_ledger as (
  delete from {schema}.ledger l using old o where l.job = o.job
), out_of_dead as (
  delete from {schema}.dead d using old o where d.job = o.job
), out_of_keys as (
  delete from {schema}.unique_key u using old o where u.job = o.job
), out_of_saved as (
  delete from {schema}.saved s using old o where s.job = o.job
), out_of_job as (
  delete from {schema}.job j using old o where j.id = o.job
)
select count(*)::int, max(keep_until) from old
