-- Plans of one schedule, the latest first: all of them, or those of a scope, those before a time, those that did not fire.
-- What became of their jobs is looked up for those on the page only, as the plans view shows it. Leans on plan_identity.
with page as materialized (
  select schedule, scope, plan_time, decision, reason, count, earliest, decided_at, run_at, job, outcome, attempts,
         error_code, duration, result, flag
    from {schema}.plan
   where schedule = %(schedule)s::text
     and (%(scope)s::text is null or scope = %(scope)s::text)
     and (%(before)s::timestamptz is null or plan_time < %(before)s::timestamptz)
     and (not %(is_unfired)s::boolean or job is null)
   order by plan_time desc, scope desc
   limit %(limit)s::int
)
select p.schedule, p.scope, p.plan_time, p.decision, p.reason, p.count as plans, p.earliest, p.decided_at, p.run_at, p.job,
       coalesce(p.outcome::text, f.outcome::text, j.state) as state,
       coalesce(p.attempts, f.attempt, j.attempt) as attempts, j.max_attempts,
       case when j.state = 'scheduled' and j.attempt > 0 then j.run_at end as next_retry_at,
       coalesce(p.error_code, f.error ->> 'code') as error_code,
       coalesce(p.duration, f.finished_at - f.started_at) as duration,
       case when jsonb_typeof(coalesce(p.result, f.result) -> 'rows_affected') = 'number'
            then (coalesce(p.result, f.result) ->> 'rows_affected')::numeric end as rows_affected,
       coalesce(p.result, f.result)::text as result, coalesce(p.flag, f.flag) as flag
  from page p
  left join lateral (
    select outcome, attempt, error, started_at, finished_at, result, flag
      from {schema}.ledger where job = p.job and is_final offset 0) f on true
  left join lateral (
    select state, attempt, max_attempts, run_at from {schema}.jobs where id = p.job offset 0) j on true
 order by p.plan_time desc, p.scope desc
