-- Delete up to %(limit)s plans that were kept long enough, and mark up to where: they cannot be backfilled any more, as
-- it is unknown whether they fired. How far the planner has come is another matter, and stays.
-- Skips locked plans, and plans of scopes that another transaction has locked. Leans on plan_keep_until. Answers how many.
with old as materialized (
  select ctid as place, schedule, scope, plan_time
    from {schema}.plan
   where keep_until <= coalesce(%(now)s::timestamptz, statement_timestamp())
   order by keep_until
   limit %(limit)s::int
     for update skip locked
), latest as materialized (
  select schedule, scope, max(plan_time) as plan_time from old group by schedule, scope
), scopes as materialized (
  select l.schedule, l.scope, l.plan_time, c.place
    from latest l
   cross join lateral (
     select ctid as place from {schema}.schedule_scope
      where schedule = l.schedule and scope = l.scope
        for update skip locked) c
), marked as (
  update {schema}.schedule_scope c
     set pruned_until = greatest(c.pruned_until, s.plan_time)
    from scopes s
   where c.ctid = s.place
), deletable as materialized (
  select place
    from old o
   where (schedule, scope) in (select schedule, scope from scopes)
      or not exists (
           select from {schema}.schedule_scope c where c.schedule = o.schedule and c.scope = o.scope)
), gone as (
  delete from {schema}.plan where ctid = any(array(select place from deletable))
)
select count(*)::int from deletable
