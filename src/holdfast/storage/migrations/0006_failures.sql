-- What goes wrong, in groups of the same failure: domain/fingerprint.py says which failures are the same.
-- min_code: 1

-- The dead letters of one group are found by it; successes have no row here, and pay nothing. NULL: written by older code.
alter table {schema}.dead add column fingerprint text;
create index dead_fingerprint on {schema}.dead (fingerprint, job) where fingerprint is not null;

-- Runs that failed, whether their job is retried or dead: each settle appends one row for each group that it met, with what the
-- last of these runs said; the leader folds them.
create table {schema}.failure_tally (
  id          bigint generated always as identity primary key,
  seen_at     timestamptz not null,
  job         bigint not null,
  run         bigint not null,
  runs        bigint not null,
  fingerprint text not null,
  kind        text not null,
  queue       text not null,
  code        text,
  type        text,
  message     text,
  frame       text
);

-- How many runs of a group failed in the ten minutes from began_at on. An hour would be too long to tell what has failed in the
-- last hour.
create table {schema}.failure_count (
  fingerprint text not null,
  began_at    timestamptz not null,
  kind        text not null,
  queue       text not null,
  runs        bigint not null,
  primary key (fingerprint, began_at, kind, queue)
);
create index failure_count_began_at on {schema}.failure_count (began_at);

-- A group: when it was seen, and the last run that failed so.
create table {schema}.failure_group (
  fingerprint   text primary key,
  first_seen_at timestamptz not null,
  last_seen_at  timestamptz not null,
  job           bigint not null,
  run           bigint not null,
  kind          text not null,
  queue         text not null,
  code          text,
  type          text,
  message       text,
  frame         text
) with (fillfactor = 80);
create index failure_group_last_seen_at on {schema}.failure_group (last_seen_at, fingerprint);
