-- A part of jobs_list_*.sql: the jobs in `scanned` that match, as sql_parts/matching_jobs.sql finds them. `scanned` also says how many rows
-- were read for each job.
-- Always answers a row: without a job, with how many rows were scanned and the last job among them, when none matches.
{part matching_jobs}
select p.job, p.kind, p.queue, p.priority, p.state, p.attempt, p.max_attempts, p.created_at, p.run_at, p.ready_at, p.started_at,
       p.finished_at, p.worker, p.is_parked, p.cancel_requested_at, p.deadline_at, p.tags, p.parent, p.args, p.args_size,
       p.error_type, p.error_message, p.error_code, p.flag, p.limit_name, p.limit_key, x.scanned, x.last, clock.now
  from clock, (select coalesce(sum(rows), 0)::int as scanned, min(job) as last from scanned) x
  left join page p on true
 order by p.job desc
