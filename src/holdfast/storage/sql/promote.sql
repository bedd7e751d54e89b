-- Move up to %(limit)s scheduled jobs whose time has come to ready or, if they have limits to pass, to the gate, oldest first, and wake
-- their queues or the leader.
-- Looks from %(since)s on (NULL: from the beginning), since entries of jobs that are gone pile up before it
-- while a transaction holds an old snapshot. Skips locked rows; leans on scheduled_run_at.
-- A job that was made ready by hand meanwhile stays in ready once.
-- Answers how many, the latest time seen (the next since), and how many of them were dropped, as their jobs are gone or
-- ready already.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), due as materialized (
  select ctid as place
    from {schema}.scheduled
   where run_at <= (select now from clock) and run_at >= coalesce(%(since)s::timestamptz, '-infinity')
   order by run_at
   limit %(limit)s::int
     for update skip locked
), taken as (
  delete from {schema}.scheduled s using due d where s.ctid = d.place
  returning s.job, s.run_at, s.attempt, s.deadline_at, s.holds
), due_now as (
  select j.queue, least(greatest(j.priority, 0), 9) as priority, t.job, j.kind, t.attempt, greatest(t.run_at, j.created_at) as ready_at,
         t.deadline_at, j.limits, j.limit_keys, t.holds
    from taken t
   cross join lateral (select queue, priority, kind, created_at, limits, limit_keys from {schema}.job where id = t.job offset 0) j
), {part placed of=due_now}, {part told_of_placed of=placed}
select count(*)::int, max(run_at), (count(*) - (select count(*) from placed))::int as dropped
  from taken, (select count(*) from told) as everyone
