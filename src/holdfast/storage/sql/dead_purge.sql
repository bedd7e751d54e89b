-- Delete dead jobs with all that is known of them: those named, or with NULL those that died before %(before)s.
-- At most %(limit)s at once, oldest first, skipping locked ones; ask again until the answer is short.
with old as materialized (
  select job, ctid as place
    from {schema}.dead
   where (%(jobs)s::bigint[] is null or job = any(%(jobs)s::bigint[]))
     and (%(before)s::timestamptz is null or died_at < %(before)s::timestamptz)
   order by died_at, job
   limit %(limit)s::int
     for update skip locked
), out_of_dead as (
  delete from {schema}.dead d using old o where d.ctid = o.place
), out_of_ledger as (
  delete from {schema}.ledger l using old o where l.job = o.job
), out_of_saved as (
  delete from {schema}.saved s using old o where s.job = o.job
), out_of_job as (
  delete from {schema}.job j using old o where j.id = o.job
)
select count(*)::int from old
