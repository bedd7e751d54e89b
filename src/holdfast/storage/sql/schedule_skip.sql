-- Let plans of one schedule pass without a fire: the given times of the given scopes, instead of those that were asked for
-- before. Fires that were planned before are void. Locks the schedule, then the scopes. Answers the scopes.
with changed as (
  update {schema}.schedule set version = version + 1 where name = %(schedule)s::text returning name
), asked as materialized (
  select a.scope, array_agg(a.plan_time order by a.plan_time) filter (where a.plan_time is not null) as skips
    from unnest(%(scopes)s::text[], %(plan_times)s::timestamptz[]) as a (scope, plan_time)
   group by a.scope
)
update {schema}.schedule_scope c
   set skips = a.skips
  from changed, asked a
 where c.schedule = changed.name and c.scope = a.scope and c.gone_at is null
returning c.scope
