-- Delete the jobs in `old` with all that is known of them, except for their dead rows; the unique keys are those of the jobs in {keys}. A plan outlives its job: what became
-- of the job goes along into the plan's row.
planned as materialized (
  select id as job, origin ->> 'schedule' as schedule, origin ->> 'scope' as scope,
         case when origin ->> 'plan_time' ~ '^\d{4}-\d\d-\d\dT' then (origin ->> 'plan_time')::timestamptz end as plan_time
    from {schema}.job
   where id = any(array(select job from old)) and origin is not null
), remembered as (
  update {schema}.plan p
     set outcome = f.outcome, attempts = f.attempt, error_code = f.error ->> 'code',
         duration = f.finished_at - f.started_at, flag = f.flag, result = f.result
    from planned j
   cross join lateral (
     select outcome, attempt, error, started_at, finished_at, flag, result
       from {schema}.ledger where job = j.job and is_final offset 0) f
   where p.schedule = j.schedule and p.plan_time = j.plan_time and p.scope = j.scope and p.job = j.job
), out_of_ledger as (
  delete from {schema}.ledger where job = any(array(select job from old))
), out_of_keys as (
  delete from {schema}.unique_key where job = any(array(select job from {keys}))
), out_of_saved as (
  delete from {schema}.saved where job = any(array(select job from old))
), out_of_checkpoint as (
  delete from {schema}.checkpoint where job = any(array(select job from old))
), out_of_log as (
  delete from {schema}.run_log where job = any(array(select job from old))
), out_of_job as (
  delete from {schema}.job where id = any(array(select job from old))
)
