-- Limits: jobs that wait at a gate until a permit of their limit is free.
-- min_code: 1

-- What a job has to pass before it may run: names of limits in ascending order, two at most, its key in each of them ('' where
-- the limit has no keys), and what a start costs of its rate (NULL: 1 of each). Written when the job is enqueued; NULL for nearly
-- all jobs, which pay nothing for it.
alter table {schema}.job
  add column limits      text[],
  add column limit_keys  text[],
  add column limit_costs integer[];

-- Segment 8 is the gate: jobs that wait for a permit, which claims do not read. limit_name and limit_key say where a job waits,
-- next_limit and next_key what comes after it; elsewhere in ready they are NULL. A job at its second limit holds the first one's
-- permit, and a job in one of the four segments of the ring all of its permits. A parked job (segment 9) holds none.
alter table {schema}.ready
  add column limit_name text,
  add column limit_key  text,
  add column next_limit text,
  add column next_key   text;
create table {schema}.ready_gated partition of {schema}.ready for values in (8)
  with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
-- Partial, though every row has a limit: so no look for a job by queue, priority and id is ever planned with this index.
create index ready_gated_lane on {schema}.ready_gated (limit_name, limit_key, priority, job) where limit_name is not null;

-- The limits whose permits a job keeps while it waits for its next run (hold = 'job'). NULL: none.
alter table {schema}.scheduled add column holds text[];
alter table {schema}.waiting add column holds text[];
create index scheduled_holds on {schema}.scheduled (job) where holds is not null;
create index waiting_holds on {schema}.waiting (job) where holds is not null;

-- A limit. declared is what code says, overrides what an operator has set, which wins until it is reset: a deploy changes only
-- the first. The columns before them are what counts, made of both by whoever writes the row. rate, rate_per, burst and is_strict
-- hold for the limit as a whole, those that begin with key_ for each of its keys. removed_at: everything passes, and is counted.
-- may_be_direct: a run that ends may hand its permit to the next job of its key by itself, as far as these settings go. is_direct:
-- it does so now. Whoever changes a setting clears is_direct; only the admitter sets it, when its lanes are ready for that.
create table {schema}.limit_rule (
  name          text primary key check (char_length(name) between 1 and 200),
  declared_at   timestamptz not null,
  changed_at    timestamptz not null,
  removed_at    timestamptz,
  closed_at     timestamptz,
  closed_until  timestamptz,
  rate_per      interval check (rate_per > interval '0'),
  key_rate_per  interval check (key_rate_per > interval '0'),
  total         integer check (total >= 0),
  per_key       integer check (per_key >= 0),
  rate          integer check (rate > 0),
  burst         integer check (burst > 0),
  key_rate      integer check (key_rate > 0),
  key_burst     integer check (key_burst > 0),
  is_strict     boolean not null default false,
  key_is_strict boolean not null default false,
  is_fair       boolean not null default false,
  may_be_direct boolean not null default false,
  is_direct     boolean not null default false,
  hold          text not null default 'run' check (hold in ('run', 'job')),
  closed_reason text,
  breaker       jsonb,
  declared      jsonb not null,
  overrides     jsonb
);

-- What an operator has set for one key of a limit.
create table {schema}.limit_key (
  changed_at    timestamptz not null,
  closed_at     timestamptz,
  closed_until  timestamptz,
  per_key       integer check (per_key >= 0),
  weight        real check (weight > 0),
  limit_name    text not null,
  key           text not null,
  closed_reason text,
  primary key (limit_name, key)
);

-- "Look at this key": somebody came (given is 0), or permits came back that nobody was seen waiting for. Written by whoever
-- enqueues or settles, without a lock; taken by the leader's admitter. priority and job: where to look from; NULL: from the front.
-- failures, is_success, closed_for and spent tell a breaker and a rate what became of the runs.
create table {schema}.knock (
  id         bigint generated always as identity,
  job        bigint,
  given      integer not null,
  failures   integer,
  spent      integer,
  closed_for interval,
  priority   smallint,
  is_success boolean,
  limit_name text not null,
  key        text not null,
  primary key (limit_name, id)
) with (autovacuum_vacuum_scale_factor = 0.02);

-- A key that holds permits, waits, or has to be remembered; none for an idle one. Never updated: each change is a new version, and
-- the newest counts. awaited: whoever leaves has to look for others again. after_priority and after_job: how far it was admitted.
-- pass: its turn among the keys that wait; NULL: it waits for none. due_at: when to look at it again without a knock, since it is
-- closed or its rate is used up. spent_until: up to which moment its rate is used; starts and start_costs are those of the last
-- window, if the rate is strict. pending: admitted and not known to be claimed yet, so not yet charged to a rate.
create sequence {schema}.lane_version cache 100;
create table {schema}.lane (
  version        bigint not null default nextval('{schema}.lane_version'),
  pass           bigint,
  after_job      bigint,
  due_at         timestamptz,
  open_until     timestamptz,
  spent_until    timestamptz,
  held           integer not null,
  failures       integer,
  after_priority smallint,
  awaited        boolean not null default false,
  is_probing     boolean not null default false,
  limit_name     text not null,
  key            text not null,
  pending        bigint[],
  starts         timestamptz[],
  start_costs    integer[],
  primary key (limit_name, key, version)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index lane_turn on {schema}.lane (limit_name, pass) where pass is not null;
create index lane_due on {schema}.lane (limit_name, due_at) where due_at is not null;
create index lane_pending on {schema}.lane (limit_name) where pending is not null;

-- The same for a limit over all its keys; none while it is direct. turn and turn_before: the last job of each queue that the last two
-- turns have admitted. rule_changed_at: the settings that it was made from.
create table {schema}.limit_state (
  version     bigint not null default nextval('{schema}.lane_version'),
  next_pass   bigint not null default 1,
  open_until  timestamptz,
  spent_until timestamptz,
  rule_changed_at timestamptz,
  held        integer not null default 0,
  failures    integer,
  is_probing  boolean not null default false,
  limit_name  text not null,
  pending     bigint[],
  turn        bigint[],
  turn_before bigint[],
  starts      timestamptz[],
  start_costs integer[],
  primary key (limit_name, version)
) with (autovacuum_vacuum_scale_factor = 0.02);

-- What code has declared of a kind's limits: [{"limit": "stripe", "by": ["account_id"], "cost": 1}], in ascending order of names.
alter table {schema}.kind add column limits jsonb;

-- Every job with its state, as before; a job at the gate is `gated`, and shows where.
create or replace view {schema}.jobs as
select j.id, j.kind, j.queue, coalesce(r.priority, j.priority) as priority,
       case when l.job is not null then 'running'
            when r.segment = 8 then 'gated'
            when r.job is not null then 'ready'
            when s.job is not null then 'scheduled'
            when w.job is not null then 'waiting'
            else coalesce(f.outcome::text, 'lost')
       end as state,
       coalesce(l.attempt, r.attempt, s.attempt, case when w.job is not null then 0::smallint end, f.attempt) as attempt,
       j.max_attempts,
       j.args::jsonb as args, j.tags, j.unique_key, j.created_at, s.run_at, l.started_at, l.worker, j.deadline_at,
       f.finished_at, f.error,
       case when f.outcome = 'succeeded' and f.flag is null then coalesce(f.result, '{}') else f.result end as result,
       f.flag, l.cancel_requested_at, r.segment = 9 as is_parked, j.origin,
       v.progress, j.parent, r.limit_name, r.limit_key
  from {schema}.job j
  left join {schema}.lease l on l.job = j.id
  left join {schema}.ready r
    on r.queue = j.queue and r.priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) and r.job = j.id
  left join {schema}.scheduled s on s.job = j.id
  left join {schema}.waiting w on w.job = j.id
  left join {schema}.ledger f on f.job = j.id and f.is_final
  left join {schema}.saved v on v.job = j.id;
