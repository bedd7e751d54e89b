-- What the ledger has of one job, oldest first. Leans on the primary key of ledger.
select run, attempt, outcome::text, is_final, worker, started_at, finished_at, flag, error::text, result::text, ready_at
  from {schema}.ledger
 where job = %(job)s::bigint
 order by run
