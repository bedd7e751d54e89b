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
), {part deleted_for_good}
select count(*)::int from old
