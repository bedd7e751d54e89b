-- Forget one schedule with its scopes. Its plans stay as long as they were to be kept, and jobs that were fired go on.
-- Locks the schedule, then its scopes, and waits for both. Answers the schedule; no row: there is none of that name.
with gone as (
  delete from {schema}.schedule where name = %(name)s::text returning name as schedule
), scopes as (
  delete from {schema}.schedule_scope where schedule in (select schedule from gone)
)
select schedule from gone
