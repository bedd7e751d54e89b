-- For how long a job's arguments have not fitted the code: since the first of its latest runs that were misfits without a
-- break. NULL: its latest run was not a misfit, or failed for good because of it, so that the time starts again when an
-- operator resumes it. Always one row. Locks nothing; leans on the primary key of ledger.
select coalesce(%(now)s::timestamptz, statement_timestamp()) - min(finished_at) filter (where is_unbroken) as lasting
  from (select finished_at,
               bool_and(outcome = 'snoozed' and coalesce(error->>'code', '') = 'decode_error')
                 over (order by run desc) as is_unbroken
          from (select run, finished_at, outcome, error from {schema}.ledger
                 where job = %(job)s::bigint order by run desc limit 100) latest) l
