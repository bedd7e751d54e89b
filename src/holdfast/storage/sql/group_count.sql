-- Add the ends of members, which the wake-ups %(ids)s tell of, to the counts of their groups; and end the groups whose last job has ended.
-- Asked in the transaction that has taken the wake-ups, before flow_wake deletes them, so that each counts once.
-- A member that an operator let run again after it had failed has ended once more: its earlier failure does not count any more.
-- Locks the rows of the groups, in ascending order. Leans on the primary keys of wakeup, job_group and ledger.
-- A group whose members have all been counted is told to the leader's chore. Answers how many groups were changed.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), told as materialized (
  select job, child from {schema}.wakeup where id = any(%(ids)s::bigint[]) and child is not null
), locked as materialized (
  select g.id, g.then_job, g.closed_at
    from (select distinct job from told order by job) t
   cross join lateral (
     select id, then_job, closed_at from {schema}.job_group where id = t.job and ended_at is null
        for no key update) g
), ends as materialized (
  select job as job_group, child, count(*) as times from told where job in (select id from locked) group by 1, 2
), outcomes as materialized (
  select g.id, g.closed_at, e.child = g.then_job as is_last, r.outcome, r.failures >= e.times as is_again
    from locked g
    join ends e on e.job_group = g.id
   cross join lateral (
     select max(outcome) filter (where is_final) as outcome,
            count(*) filter (where outcome = 'failed' and not is_final) as failures
       from {schema}.ledger where job = e.child) r
), sums as materialized (
  select id, count(*) filter (where outcome = 'succeeded') as succeeded,
         -- Of one that does not show its end any more an operator has just let the failure run again.
         count(*) filter (where coalesce(outcome, 'failed') = 'failed') - count(*) filter (where is_again) as failed,
         count(*) filter (where outcome = 'cancelled') as cancelled, count(*) filter (where outcome = 'expired') as expired
    from outcomes
   where closed_at is null and is_last is not true
   group by 1
), over as materialized (
  select distinct id from outcomes where is_last and outcome is not null
), added as (
  update {schema}.job_group g
     set succeeded = g.succeeded + coalesce(s.succeeded, 0), failed = greatest(g.failed + coalesce(s.failed, 0), 0),
         cancelled = g.cancelled + coalesce(s.cancelled, 0), expired = g.expired + coalesce(s.expired, 0),
         ended_at = case when o.id is not null then clock.now end,
         keep_until = case when o.id is not null then clock.now + %(keep)s::interval end
    from clock, locked l
    left join sums s on s.id = l.id
    left join over o on o.id = l.id
   where g.id = l.id and g.id = any(array(select id from locked))
  returning case when g.closed_at is null and g.succeeded + g.failed + g.cancelled + g.expired >= g.members
                 then pg_notify('{schema_name}.group', '') end
)
select count(*)::int from added
