-- Leave each of these jobs, none of which has ended, in one place, that which is furthest: a lease before ready, before scheduled, before
-- waiting; of several leases that of the newest run, so that the others are fenced off.
-- Locks every place of the jobs, skipping locked rows, and keeps one that it has locked: what another transaction moves at
-- this moment is left for the next look. ready and lease are read once, as no index has their jobs.
-- Answers the jobs that had another place.
with asked as materialized (
  select a.job
    from (select distinct job from unnest(%(jobs)s::bigint[]) as a (job)) a
   where not exists (select from {schema}.ledger l where l.job = a.job and l.is_final::int = 1 offset 0)
), in_lease as materialized (
  select ctid as place, job, run from {schema}.lease where job = any(array(select job from asked))
   order by job for update skip locked
), in_ready as materialized (
  select segment, ctid as place, job from {schema}.ready where job = any(array(select job from asked))
   order by job for update skip locked
), in_scheduled as materialized (
  select ctid as place, job from {schema}.scheduled where job = any(array(select job from asked))
   order by job for update skip locked
), in_waiting as materialized (
  select ctid as place, job from {schema}.waiting where job = any(array(select job from asked))
   order by job for update skip locked
), ranked as materialized (
  select job, home, segment, place, row_number() over (partition by job order by home, run desc, segment, place) as rank
    from (select job, 1 as home, null::smallint as segment, place, run from in_lease
          union all select job, 2, segment, place, null from in_ready
          union all select job, 3, null, place, null from in_scheduled
          union all select job, 4, null, place, null from in_waiting) p
), out_of_lease as (
  delete from {schema}.lease where ctid = any(array(select place from ranked where home = 1 and rank > 1))
), out_of_ready as (
  delete from {schema}.ready r using ranked x where x.home = 2 and x.rank > 1 and r.segment = x.segment and r.ctid = x.place
), out_of_scheduled as (
  delete from {schema}.scheduled where ctid = any(array(select place from ranked where home = 3 and rank > 1))
), out_of_waiting as (
  delete from {schema}.waiting where ctid = any(array(select place from ranked where home = 4 and rank > 1))
)
select distinct job from ranked where rank > 1
