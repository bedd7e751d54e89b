-- Log lines of handlers, of kinds that ask for it.
-- min_code: 1

-- Lines number `first` to `last` of a run, written together. A number that is missing was dropped: a run keeps its newest lines.
-- lines is an array of objects with time (seconds since 1970, by the worker's clock), level, logger and message. Not fenced: what a
-- run said before it lost its lease is still true. Deleted with its job.
create table {schema}.run_log (
  job        bigint not null,
  run        bigint not null,
  written_at timestamptz not null,
  first      integer not null,
  last       integer not null,
  lines      json not null,
  primary key (job, run, last)
);
