-- Flows: what they have done (checkpoints), what they wait for (waits), and what wakes them (events, ends of children).
-- min_code: 1

-- The flow that is to be looked at when this job ends; NULL for nearly all, which pay nothing for it.
alter table {schema}.job add column parent bigint;

-- What a flow has done, or begun to wait for. A row that is done never changes.
-- A call is open until its child has ended; the flow awaits all calls of one bunch together.
create table {schema}.checkpoint (
  job        bigint not null,
  child      bigint,
  code       bigint,
  written_at timestamptz not null,
  until      timestamptz,
  place      integer,
  failures   smallint not null default 0,
  is_done    boolean not null,
  kind       text not null check (char_length(kind) between 1 and 200),
  name       text not null check (octet_length(name) between 1 and 1000),
  bunch      text,
  value      jsonb,
  error      jsonb,
  primary key (job, name)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index checkpoint_open on {schema}.checkpoint (job) where not is_done;
create index checkpoint_child on {schema}.checkpoint (child) where child is not null and not is_done;

-- A flow that waits for an event or for children. It holds nothing but this row and its waits.
create table {schema}.waiting (
  job         bigint primary key,
  since       timestamptz not null,
  until       timestamptz,
  deadline_at timestamptz
) with (autovacuum_vacuum_scale_factor = 0.02);
create index waiting_until on {schema}.waiting (until) where until is not null;
create index waiting_deadline on {schema}.waiting (deadline_at) where deadline_at is not null;

-- What it waits for: an event's key, or a bunch of calls (key is NULL, name is the bunch).
create table {schema}.wait (
  job      bigint not null,
  is_eager boolean not null,
  name     text not null,
  key      text,
  primary key (job, name)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index wait_key on {schema}.wait (key) where key is not null;

-- Events that nobody has taken yet.
create table {schema}.event (
  id         bigint generated always as identity primary key,
  emitted_at timestamptz not null,
  keep_until timestamptz not null,
  key        text not null check (octet_length(key) between 1 and 1000),
  payload    jsonb
) with (autovacuum_vacuum_scale_factor = 0.02);
create index event_key on {schema}.event (key, id);
create index event_keep_until on {schema}.event (keep_until);

-- A fact that may end a wait, written with it in one transaction: an event, the end of a child, the end of a flow that
-- has children. Taken by the leader, who decides under the lock of the wait's key.
create table {schema}.wakeup (
  id    bigint generated always as identity primary key,
  job   bigint,
  child bigint,
  key   text
) with (autovacuum_vacuum_scale_factor = 0.02);

create or replace view {schema}.jobs as
select j.id, j.kind, j.queue, coalesce(r.priority, j.priority) as priority,
       case when l.job is not null then 'running'
            when r.job is not null then 'ready'
            when s.job is not null then 'scheduled'
            when w.job is not null then 'waiting'
            else f.outcome::text
       end as state,
       coalesce(l.attempt, r.attempt, s.attempt, case when w.job is not null then 0::smallint end, f.attempt) as attempt,
       j.max_attempts,
       j.args, j.tags, j.unique_key, j.created_at, s.run_at, l.started_at, l.worker, j.deadline_at,
       f.finished_at, f.error,
       case when f.outcome = 'succeeded' and f.flag is null then coalesce(f.result, '{}') else f.result end as result,
       f.flag, l.cancel_requested_at, r.segment = 9 as is_parked, j.origin,
       v.progress, j.parent
  from {schema}.job j
  left join {schema}.lease l on l.job = j.id
  left join {schema}.ready r
    on r.queue = j.queue and r.priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) and r.job = j.id
  left join {schema}.scheduled s on s.job = j.id
  left join {schema}.waiting w on w.job = j.id
  left join {schema}.ledger f on f.job = j.id and f.is_final
  left join {schema}.saved v on v.job = j.id;
