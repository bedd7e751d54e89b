-- Ask a worker to be quiet, to stop, or with NULL to work; it reads this with its next heartbeat, for which it is woken.
-- Asked after worker_request_lock, in the same transaction. Answers the worker.
update {schema}.worker_request r
   set activity = %(activity)s::text, grace = %(grace)s::interval, by = %(by)s::text, reason = %(reason)s::text,
       asked_at = coalesce(%(now)s::timestamptz, statement_timestamp())
  from (select pg_notify('{schema_name}.cancel', %(worker)s::bigint::text)) as told
 where r.worker = %(worker)s::bigint
returning r.worker
