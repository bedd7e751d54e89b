-- What is known of the plans of one schedule in a range of plan times: which there are, and whether they have a job.
-- Leans on plan_identity.
select scope, plan_time, decision, job is not null as has_job
  from {schema}.plan
 where schedule = %(schedule)s::text and plan_time between %(first)s::timestamptz and %(last)s::timestamptz
   and (%(scope)s::text is null or scope = %(scope)s::text)
