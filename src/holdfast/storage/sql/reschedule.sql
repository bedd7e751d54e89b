-- Let jobs that wait for their turn run at another time: at %(run_at)s or %(delay)s from now; at once if that has come. Attempts that
-- were counted stay counted. A job with limits gives back the permits that it held in ready, and comes to the gate when it is due; what it
-- has kept since its last run it keeps.
-- Locks ready and scheduled rows in ascending order, skipping locked ones, and inserts them again; never waits. A job whose deadline
-- comes first is left as it is.
-- Answers for each job: rescheduled, too_late (its deadline comes first), running, waiting, final, unknown, or moving (ask again in
-- a new statement).
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), due as materialized (
  select coalesce(%(run_at)s::timestamptz, clock.now + %(delay)s::interval) as at from clock
), wanted as materialized (
  select distinct a.job, j.kind, j.queue, j.priority, j.deadline_at, j.limits, j.limit_keys, coalesce(j.deadline_at <= due.at, false) as is_too_late
    from due, unnest(%(jobs)s::bigint[]) as a (job)
   cross join lateral (select kind, queue, priority, deadline_at, limits, limit_keys from {schema}.job where id = a.job offset 0) j
), asked as materialized (
  select job from wanted where not is_too_late order by job
), {part in_ready_and_scheduled}, out_of_ready as (
  delete from {schema}.ready r using in_ready i where r.segment = i.segment and r.ctid = i.place
  returning r.job, r.attempt, r.segment, r.limit_name, null::text[] as holds
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place
  returning s.job, s.attempt, null::smallint as segment, null::text as limit_name, s.holds
), taken as materialized (
  select w.*, t.attempt, t.holds, coalesce(cardinality(t.holds), 0) as kept, {part held_permits place=t limits=w.limits} as held
    from (select * from out_of_ready union all select * from out_of_scheduled) t
    join wanted w using (job)
), {part given_back of=taken}, due_now as (
  select t.queue, least(greatest(t.priority, 0), 9) as priority, t.job, t.kind, t.attempt, clock.now as ready_at, t.deadline_at,
         t.limits, t.limit_keys, t.holds
    from clock, due, taken t
   where due.at <= clock.now
), {part placed of=due_now}, later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt, holds)
  select t.job, due.at, t.deadline_at, t.attempt, t.holds from clock, due, taken t where due.at > clock.now
  returning run_at
), {part told_of_placed of=placed}, told_leader as materialized (
  select pg_notify('{schema_name}.due', extract(epoch from first)::text)
    from (select min(run_at) as first from later) l
   where first is not null
)
select a.job,
       case when t.job is not null then 'rescheduled'
            when w.is_too_late then 'too_late'
            else {part place_of job=a.job}
       end as answer
  from (select distinct job from unnest(%(jobs)s::bigint[]) as a (job)) a
  left join taken t using (job)
  left join wanted w on w.job = a.job, (select count(*) from told) as everyone, (select count(*) from told_leader) as leader
