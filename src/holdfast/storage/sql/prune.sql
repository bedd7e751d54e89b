-- Delete up to %(limit)s jobs that ended and were kept as long as they asked, with all that is known of them.
-- Looks from %(since)s on (NULL: from the beginning), as promote does. Leans on ledger_keep_until.
-- Never waits: skips locked rows, and jobs whose dead row or left-behind unique key somebody has locked.
-- Answers how many, and the latest time seen: the next since.
with ended as materialized (
  select job, keep_until
    from {schema}.ledger
   where is_final and keep_until <= coalesce(%(now)s::timestamptz, statement_timestamp())
     and keep_until >= coalesce(%(since)s::timestamptz, '-infinity')
   order by keep_until
   limit %(limit)s::int
     for update skip locked
), dead as materialized (
  select d.job from ended e join {schema}.dead d on d.job = e.job for update of d skip locked
), keys as materialized (
  select k.job, k.queue, k.key from ended e join {schema}.unique_key k on k.job = e.job for update of k skip locked
), old as materialized (
  select job, keep_until
    from ended e
   where (job in (select job from dead) or not exists (select from {schema}.dead d where d.job = e.job))
     and (job in (select job from keys) or not exists (select from {schema}.unique_key k where k.job = e.job))
), out_of_ledger as (
  delete from {schema}.ledger l using old o where l.job = o.job
), out_of_dead as (
  delete from {schema}.dead d using old o where d.job = o.job
), out_of_keys as (
  delete from {schema}.unique_key u using old o, keys k where k.job = o.job and u.queue = k.queue and u.key = k.key
), out_of_saved as (
  delete from {schema}.saved s using old o where s.job = o.job
), out_of_job as (
  delete from {schema}.job j using old o where j.id = o.job
)
select count(*)::int, max(keep_until) from old
