-- Delete dead jobs with all that is known of them: those named, or with NULL those that died before %(before)s.
-- At most %(limit)s at once, oldest first; ask again until the answer is short.
-- Never waits: skips locked dead and ledger rows, as prune and revive do, and jobs whose left-behind unique key
-- somebody has locked.
with dead as materialized (
  select d.job, d.place
    from (select job, run, died_at, ctid as place
            from {schema}.dead
           where (%(jobs)s::bigint[] is null or job = any(%(jobs)s::bigint[]))
             and (%(before)s::timestamptz is null or died_at < %(before)s::timestamptz)
           order by died_at, job
           limit %(limit)s::int
             for update skip locked) d
   cross join lateral (
     select from {schema}.ledger where job = d.job and run = d.run for update skip locked) l
), keys as materialized (
  select k.job, k.queue, k.key from dead d join {schema}.unique_key k on k.job = d.job for update of k skip locked
), old as materialized (
  select job, place
    from dead d
   where job in (select job from keys) or not exists (select from {schema}.unique_key k where k.job = d.job)
), out_of_dead as (
  delete from {schema}.dead d using old o where d.ctid = o.place
), out_of_ledger as (
  delete from {schema}.ledger l using old o where l.job = o.job
), out_of_keys as (
  delete from {schema}.unique_key u using old o, keys k where k.job = o.job and u.queue = k.queue and u.key = k.key
), out_of_saved as (
  delete from {schema}.saved s using old o where s.job = o.job
), out_of_job as (
  delete from {schema}.job j using old o where j.id = o.job
)
select count(*)::int from old
