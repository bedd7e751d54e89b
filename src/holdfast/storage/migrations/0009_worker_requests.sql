-- What operators ask of a running worker, and what it says that it does.
-- min_code: 1

-- working, quiet (it claims nothing) or stopping; NULL for a worker that is older than this column, and cannot be asked.
alter table {schema}.worker add column activity text;

-- A worker reads its row with every heartbeat. activity: quiet, stop, hurry (stop, and release what runs at once), or NULL to
-- work. slots: an object from queue to number. Not columns of worker: an operator's transaction that stays open would lock that
-- row, and the worker's heartbeat would wait for it until its lease is lost.
create table {schema}.worker_request (
  worker   bigint primary key,
  asked_at timestamptz not null,
  activity text,
  grace    interval,
  by       text,
  reason   text,
  slots    jsonb not null default '{}'
);
