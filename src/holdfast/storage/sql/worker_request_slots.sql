-- Ask a worker to run so many jobs of a queue at once; it reads this with its next heartbeat, for which it is woken. What was
-- asked for its other queues stays. Asked after worker_request_lock, in the same transaction. Answers the worker.
update {schema}.worker_request r
   set slots = r.slots || jsonb_build_object(%(queue)s::text, %(slots)s::int)
  from (select pg_notify('{schema_name}.cancel', %(worker)s::bigint::text)) as told
 where r.worker = %(worker)s::bigint
returning r.worker
