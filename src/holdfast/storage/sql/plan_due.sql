-- What is due for a decision: up to %(limit)s scopes whose time to look has come, the longest overdue first. Scopes of one
-- schedule that stand alike come in one row, with their names. With the time at which they fired their last job if that
-- is still active: only schedules whose jobs must not overlap keep it. Of one schedule, if %(schedule)s names it.
-- Locks nothing: a fire compares what was read here. Leans on schedule_scope_next_at.
-- Always answers at least one row with the clock, the only one that planning knows; in a row without a schedule nothing
-- is due. No version: the schedule is gone.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), due as materialized (
  select schedule, scope, zone, since_at, last_plan_at, job, skips, error
    from {schema}.schedule_scope
   where next_at is not null and gone_at is null and next_at <= (select now from clock)
     and (%(schedule)s::text is null or schedule = %(schedule)s::text)
   order by next_at
   limit %(limit)s::int
), alike as materialized (
  select schedule, zone, greatest(since_at, last_plan_at) as since_at, last_plan_at, job, skips, error,
         array_agg(scope) as scopes
    from due
   group by schedule, zone, greatest(since_at, last_plan_at), last_plan_at, job, skips, error
)
select clock.now, d.schedule, d.scopes, s.version, s.timing, s.rules, d.zone, s.paused_at, s.paused_until, d.since_at,
       d.last_plan_at, d.skips, d.error,
       (select j.created_at from {schema}.job j
         where j.id = d.job
           and not exists (select from {schema}.ledger l where l.job = d.job and l.is_final)) as active_since
  from clock
  left join alike d on true
  left join lateral (
    select version, timing::text, rules::text, paused_at, paused_until
      from {schema}.schedule where name = d.schedule offset 0) s on true
