-- Figures for operators: how long runs waited and took, what began, and hours beside the minutes.
-- min_code: 1

-- A length of time is counted in buckets: bucket b holds lengths around 1.2 ^ b seconds, so that any of them is told to within a
-- tenth. shares are runs that waited and took alike: shares[n] of them are in wait_buckets[n] and in run_buckets[n]. NULL: jobs
-- that ended without a run, and what older code has written.
alter table {schema}.tally
  add column began        timestamptz,
  add column wait_time    interval,
  add column shares       integer[],
  add column wait_buckets smallint[],
  add column run_buckets  smallint[];

-- wait_counts[n] runs are in wait_buckets[n]. Buckets without a run are left out.
alter table {schema}.counter
  add column wait_time    interval not null default '0',
  add column wait_buckets smallint[] not null default '{}',
  add column wait_counts  integer[] not null default '{}',
  add column run_buckets  smallint[] not null default '{}',
  add column run_counts   integer[] not null default '{}';

-- The same for each hour, kept for longer.
create table {schema}.counter_hour (
  hour         timestamptz not null,
  queue        text not null,
  kind         text not null,
  outcome      {schema}.outcome not null,
  runs         bigint not null,
  run_time     interval not null,
  wait_time    interval not null default '0',
  wait_buckets smallint[] not null default '{}',
  wait_counts  integer[] not null default '{}',
  run_buckets  smallint[] not null default '{}',
  run_counts   integer[] not null default '{}',
  primary key (hour, queue, kind, outcome)
) with (fillfactor = 70);
insert into {schema}.counter_hour (hour, queue, kind, outcome, runs, run_time)
select date_bin(interval '1 hour', minute, timestamptz '2000-01-01 00:00:00Z'), queue, kind, outcome, sum(runs), sum(run_time)
  from {schema}.counter
 group by 1, 2, 3, 4;

-- What began in a minute: jobs that were enqueued, and runs that started. A run is counted when it has ended, for the minute in
-- which it started; one that has not is in lease.
create table {schema}.beginning (
  minute   timestamptz not null,
  queue    text not null,
  kind     text not null,
  enqueued bigint not null,
  started  bigint not null,
  primary key (minute, queue, kind)
) with (fillfactor = 70);
create table {schema}.beginning_hour (
  hour     timestamptz not null,
  queue    text not null,
  kind     text not null,
  enqueued bigint not null,
  started  bigint not null,
  primary key (hour, queue, kind)
) with (fillfactor = 70);

-- New jobs are counted by the leader, in the order of their ids: this one and all before it have been.
create table {schema}.enqueue_mark (
  is_only boolean primary key default true check (is_only),
  job     bigint not null
) with (fillfactor = 50);
insert into {schema}.enqueue_mark (job) select coalesce(max(id), 0) from {schema}.job;

-- A job that is kept for no time may be gone before the leader looks: the statement that ends it counts it as enqueued.
create table {schema}.enqueue_tally (
  id       bigint generated always as identity primary key,
  minute   timestamptz not null,
  queue    text not null,
  kind     text not null,
  enqueued bigint not null
);
