-- Plans of one schedule, the latest first: all of them, or those of a scope, those before a time, those that did not fire.
-- Leans on plan_identity; what became of their jobs is looked up for those on the page only.
with page as materialized (
  select schedule, scope, plan_time
    from {schema}.plan
   where schedule = %(schedule)s::text
     and (%(scope)s::text is null or scope = %(scope)s::text)
     and (%(before)s::timestamptz is null or plan_time < %(before)s::timestamptz)
     and (not %(is_unfired)s::boolean or job is null)
   order by plan_time desc, scope desc
   limit %(limit)s::int
)
select p.schedule, p.scope, p.plan_time, p.decision, p.reason, p.count as plans, p.earliest, p.decided_at, p.run_at, p.job, p.state, p.attempts,
       p.max_attempts, p.next_retry_at, p.error_code, p.duration, p.rows_affected, p.result::text, p.flag
  from page
 cross join lateral (
   select * from {schema}.plans v
    where v.schedule = page.schedule and v.plan_time = page.plan_time and v.scope = page.scope) p
 order by p.plan_time desc, p.scope desc
