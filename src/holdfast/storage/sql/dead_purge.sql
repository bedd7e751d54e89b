-- Delete dead jobs with all that is known of them: those named, or with NULL those that died before %(before)s, at
-- most %(limit)s at once, oldest first; ask again until the answer is short.
-- Never waits: skips locked dead and ledger rows, as prune, resume and retry do, and jobs whose left-behind unique key
-- another transaction has locked.
with dead as materialized (
  select d.job, d.place
    from (select named.*
            from unnest(%(jobs)s::bigint[]) as a (job)
           cross join lateral (
             select job, run, ctid as place from {schema}.dead where job = a.job for update skip locked) named
          union all
          select * from (
            select job, run, ctid as place
              from {schema}.dead
             where %(jobs)s::bigint[] is null and died_at < %(before)s::timestamptz
             order by died_at, job
             limit %(limit)s::int
               for update skip locked) old) d
    left join lateral (
     select true as is_locked from {schema}.ledger where job = d.job and run = d.run for update skip locked) l on true
   -- No ledger row: an operator deleted it by hand.
   where l.is_locked or not exists (select from {schema}.ledger f where f.job = d.job and f.run = d.run offset 0)
), keys as materialized (
  select d.job from dead d
   cross join lateral (select from {schema}.unique_key where job = d.job for update skip locked) k
), old as materialized (
  select job, place
    from dead d
   where job in (select job from keys) or not exists (select from {schema}.unique_key k where k.job = d.job)
), out_of_dead as (
  delete from {schema}.dead d using old o where d.ctid = o.place
), remembered as (
  -- A plan outlives its job: what became of it goes along.
  update {schema}.plan p
     set outcome = f.outcome, attempts = f.attempt, error_code = f.error ->> 'code',
         duration = f.finished_at - f.started_at, flag = f.flag, result = f.result
    from old o
   cross join lateral (
     select origin ->> 'schedule' as schedule, origin ->> 'scope' as scope,
            case when origin ->> 'plan_time' ~ '^\d{4}-\d\d-\d\dT' then (origin ->> 'plan_time')::timestamptz end as plan_time
       from {schema}.job where id = o.job and origin is not null offset 0) j
   cross join lateral (
     select outcome, attempt, error, started_at, finished_at, flag, result
       from {schema}.ledger where job = o.job and is_final offset 0) f
   where p.schedule = j.schedule and p.plan_time = j.plan_time and p.scope = j.scope and p.job = o.job
), out_of_ledger as (
  delete from {schema}.ledger where job = any(array(select job from old))
), out_of_keys as (
  delete from {schema}.unique_key where job = any(array(select job from old))
), out_of_saved as (
  delete from {schema}.saved where job = any(array(select job from old))
), out_of_checkpoint as (
  delete from {schema}.checkpoint where job = any(array(select job from old))
), out_of_job as (
  delete from {schema}.job where id = any(array(select job from old))
)
select count(*)::int from old
