-- One job as the jobs view shows it, but for a missing result: {} there, null here, as programs tell None from an
-- empty object; and with the last error of a job that waits to go on: why a flow has refused an event or tries a step again,
-- else what the last run failed with (one that was only given back does not count). A job that runs shows no error of an
-- earlier run. No row: there is no such job (any more).
select id, kind, queue, priority, state, attempt, max_attempts, args::text, tags, unique_key, created_at, run_at,
       started_at, worker, deadline_at, finished_at,
       case when state = 'waiting'
            then (select c.error::text from {schema}.checkpoint c
                   where c.job = %(job)s::bigint and not c.is_done and c.error is not null limit 1)
            when state in ('gated', 'ready', 'scheduled')
            then (select l.error::text from {schema}.ledger l
                   where l.job = %(job)s::bigint and (l.outcome <> 'released' or l.error is not null)
                   order by l.run desc limit 1)
            else error::text end,
       (select l.result::text from {schema}.ledger l where l.job = %(job)s::bigint and l.is_final order by l.run desc limit 1),
       flag, cancel_requested_at, is_parked, progress::text
  from {schema}.jobs
 where id = %(job)s::bigint
 limit 1
