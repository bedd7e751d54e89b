-- For how long a job has not fitted the code that claimed it: since the first of the misfits that its latest runs were, one
-- after the other. Null: its latest run was none, or has failed by it: the operator who resumes it gives it new patience. Always one row. Locks nothing; leans on the primary key of ledger.
select coalesce(%(now)s::timestamptz, statement_timestamp()) - min(finished_at) filter (where is_unbroken) as lasting
  from (select finished_at,
               bool_and(outcome = 'snoozed' and coalesce(error->>'code', '') = 'decode_error')
                 over (order by run desc) as is_unbroken
          from (select run, finished_at, outcome, error from {schema}.ledger
                 where job = %(job)s::bigint order by run desc limit 100) latest) l
