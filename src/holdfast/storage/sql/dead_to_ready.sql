-- Let dead jobs run again; those with limits come to the gate. Resume: with what they saved and one more attempt after those that were counted. Retry (fresh):
-- with all attempts, and from the start (from_start) with nothing saved.
-- Locks dead and ledger rows, skipping locked ones, so that it never waits for prune. A unique key is taken
-- again, as enqueue_unique does; a job whose key an active one holds by now stays dead. Without %(with_keys)s no
-- key is taken and no job touched that has one.
-- Answers for each job: resumed or retried, duplicate, unknown, or moving (ask again in a new statement).
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select distinct job from unnest(%(jobs)s::bigint[]) as a (job) order by job
), locked as materialized (
  select d.job, d.run, d.place, j.queue, j.priority, j.kind, j.deadline_at, j.unique_key, j.limits, j.limit_keys,
         case when %(fresh)s::boolean then 0 else greatest(least(coalesce(l.attempt, 0), j.max_attempts - 1), 0) end as attempt
    from asked a
   cross join lateral (
     select job, run, ctid as place from {schema}.dead where job = a.job for update skip locked) d
    left join lateral (
     select attempt from {schema}.ledger where job = d.job and run = d.run for update skip locked) l on true
   cross join lateral (
     select queue, priority, kind, deadline_at, unique_key, max_attempts, limits, limit_keys from {schema}.job where id = d.job offset 0) j
   where (%(with_keys)s::boolean or j.unique_key is null)
     -- No ledger row: an operator deleted it by hand.
     and (l.attempt is not null or not exists (select from {schema}.ledger f where f.job = d.job and f.run = d.run offset 0))
), held as (
  insert into {schema}.unique_key as held (queue, key, job)
  select distinct on (queue, unique_key) queue, unique_key, job
    from locked
   where unique_key is not null
   order by queue, unique_key, job
  on conflict (queue, key) do update
     set (job, until) = {part job_that_keeps_the_key is_given_up=false}
  returning held.job
), chosen as materialized (
  select * from locked where unique_key is null or job in (select job from held)
), out_of_dead as (
  delete from {schema}.dead d using chosen c where d.ctid = c.place
), unsaved as (
  delete from {schema}.saved where %(from_start)s::boolean and job = any(array(select job from chosen))
), unmarked as (
  delete from {schema}.superseded where job = any(array(select job from chosen))
), unrecorded as (
  delete from {schema}.checkpoint where %(from_start)s::boolean and job = any(array(select job from chosen))
), reopened as (
  -- Joined, since before Postgres 17 two arrays are looked up in every combination; with the array of jobs, so that
  -- whatever the statistics say, no plan reads the runs of other jobs.
  update {schema}.ledger l
     set is_final = false, keep_until = null
    from chosen c
   where l.job = any(array(select job from chosen)) and l.job = c.job and l.run = c.run
), again as (
  select c.queue, least(greatest(c.priority, 0), 9) as priority, c.job, c.kind, c.attempt, clock.now as ready_at, c.deadline_at,
         c.limits, c.limit_keys, null::text[] as holds
    from clock, chosen c
), {part placed of=again}, {part told_of_placed of=placed}
select a.job,
       case when c.job is not null then case when %(fresh)s::boolean then 'retried' else 'resumed' end
            when l.job is not null then 'duplicate'
            when not exists (select from {schema}.dead d where d.job = a.job)
              or not exists (select from {schema}.job j where j.id = a.job) then 'unknown'
            else 'moving'
       end as answer
  from asked a
  left join locked l using (job)
  left join chosen c using (job), (select count(*) from told) as everyone
