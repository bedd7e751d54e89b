-- One job: what a list shows of it, as sql_parts/matching_jobs.sql finds it, and beyond that all of its arguments and its policy, what it has
-- saved, whether it has steps, the groups that it is a member of or follows, its limits with its keys, and
-- those of which it keeps a permit while it waits for its next run. No row: there is no such job (any more). Leans on primary keys. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), scanned as materialized (
  select %(job)s::bigint as job, true as is_wanted
), {part matching_jobs}
select p.job, p.kind, p.queue, p.priority, p.state, p.attempt, p.max_attempts, p.created_at, p.run_at, p.ready_at, p.started_at,
       p.finished_at, p.worker, p.is_parked, p.cancel_requested_at, p.deadline_at, p.tags, p.parent, p.args, p.args_size,
       p.error_type, p.error_message, p.error_code, p.flag, p.limit_name, p.limit_key, 1 as scanned, p.job as last, clock.now,
       j.unique_key, j.backoff::text, j.timeout, j.keep, j.on_lost, j.origin::text, v.progress::text,
       exists (select from {schema}.checkpoint c where c.job = p.job) as has_steps,
       array(select distinct job_group from {schema}.group_member m where m.job = p.job order by 1 limit 20) as groups,
       k.until as unique_until, j.debounced_since, j.debounced_until,
       coalesce(j.limits, '{}') as limits, coalesce(j.limit_keys, '{}') as limit_keys,
       coalesce((select s.holds from {schema}.scheduled s where s.job = p.job),
                (select w.holds from {schema}.waiting w where w.job = p.job), '{}') as kept_limits
  from clock, page p
 cross join lateral (
   select unique_key, backoff, timeout, keep, on_lost, origin, debounced_since, debounced_until, limits, limit_keys
     from {schema}.job where id = p.job offset 0) j
  left join lateral (
   select until from {schema}.unique_key where queue = p.queue and key = j.unique_key and job = p.job offset 0) k on true
  left join lateral (select progress from {schema}.saved where job = p.job offset 0) v on true
