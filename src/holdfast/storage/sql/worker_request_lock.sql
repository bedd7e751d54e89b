-- What a worker does and what it was asked before, for an operator who asks it for something now.
-- Locks its row in worker_request, which is made if there is none, so that two operators go one after the other; not the row in
-- worker, so that no heartbeat waits for an operator. No row means that there is no such worker.
with known as materialized (
  select id, queues, activity, lost_at from {schema}.worker where id = %(worker)s::bigint
), locked as (
  insert into {schema}.worker_request as r (worker, asked_at)
  select id, coalesce(%(now)s::timestamptz, statement_timestamp()) from known
  on conflict (worker) do update set worker = r.worker
  returning r.activity
)
select k.queues, k.activity, k.lost_at is not null as is_lost, l.activity as asked
  from known k, locked l
