-- Let the timeout of one run start now, because its child process started late, or not yet, through no fault of its
-- handler. Never past the deadline of its job, and never earlier than it was.
-- The fence is (worker, job, run) still in lease; no row in the answer: it was taken away, and nothing was written.
update {schema}.lease l
   set timeout_at = greatest(l.timeout_at, least(
         coalesce(%(now)s::timestamptz, statement_timestamp()) + %(lasting)s::interval,
         (select deadline_at from {schema}.job where id = l.job)))
 where l.worker = %(worker)s::bigint and l.job = %(job)s::bigint and l.run = %(run)s::bigint
returning l.run
