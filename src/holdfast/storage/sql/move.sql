-- Put jobs that wait for their turn into another queue, with their unique keys.
-- Locks ready and scheduled rows in ascending order, skipping locked ones, and inserts them again, so that a promote that began before
-- us does not use the old queue; a job at a gate stays there, and one that has passed keeps its permits; takes the keys in the new queue, as enqueue_unique does. A job whose key another job holds there stays where it is. Without %(with_keys)s no job is
-- touched that has a key.
-- Answers for each job: moved (also if it is there already), duplicate, running, waiting, final, unknown, or moving (ask again in a new
-- statement).
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), wanted as materialized (
  select distinct a.job, j.kind, j.queue, j.priority, j.unique_key, j.deadline_at, j.limits, j.limit_keys
    from unnest(%(jobs)s::bigint[]) as a (job)
   cross join lateral (select kind, queue, priority, unique_key, deadline_at, limits, limit_keys from {schema}.job where id = a.job offset 0) j
), asked as materialized (
  select job from wanted
   where queue <> %(queue)s::text and (%(with_keys)s::boolean or unique_key is null)
   order by job
), {part in_ready_and_scheduled}, locked as materialized (
  select w.*, r.segment, r.place as in_ready, null::tid as in_scheduled
    from in_ready r
   cross join lateral (select job from {schema}.ready where segment = r.segment and ctid = r.place offset 0) o
    join wanted w using (job)
  union all
  select w.*, null, null, s.place
    from in_scheduled s
   cross join lateral (select job from {schema}.scheduled where ctid = s.place offset 0) o
    join wanted w using (job)
), held as (
  insert into {schema}.unique_key as held (queue, key, job, until)
  select distinct on (unique_key) %(queue)s::text, unique_key, job,
         (select k.until from {schema}.unique_key k where k.queue = l.queue and k.key = l.unique_key and k.job = l.job)
    from locked l
   where unique_key is not null
   order by unique_key, job
  on conflict (queue, key) do update
     set (job, until) = {part job_that_keeps_the_key is_given_up=false}
  returning held.job
), chosen as materialized (
  select * from locked where unique_key is null or job in (select job from held)
), let_go as (
  delete from {schema}.unique_key k using chosen c
   where k.queue = c.queue and k.key = c.unique_key and k.job = c.job
), out_of_ready as (
  delete from {schema}.ready r using chosen c where r.segment = c.segment and r.ctid = c.in_ready
  returning r.job, r.priority, r.segment, r.kind, r.attempt, r.ready_at, r.deadline_at, r.limit_name, r.limit_key, r.next_limit, r.next_key,
            c.limits, c.limit_keys
), out_of_scheduled as (
  delete from {schema}.scheduled s using chosen c where s.ctid = c.in_scheduled
  returning s.job, s.run_at, s.deadline_at, s.attempt, s.holds
), changed as (
  update {schema}.job set queue = %(queue)s::text where id = any(array(select job from chosen))
), kept_in_place as (
  select %(queue)s::text as queue, o.* from out_of_ready o
), {part replaced_in_ready of=kept_in_place parked=8}, later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt, holds)
  select job, run_at, deadline_at, attempt, holds from out_of_scheduled
), {part told_of_placed of=placed}
select a.job,
       case when c.job is not null or w.queue = %(queue)s::text then 'moved'
            when l.job is not null then 'duplicate'
            else {part place_of job=a.job}
       end as answer
  from (select distinct job from unnest(%(jobs)s::bigint[]) as a (job)) a
  left join chosen c using (job)
  left join locked l on l.job = a.job
  left join wanted w on w.job = a.job, (select count(*) from told) as everyone
