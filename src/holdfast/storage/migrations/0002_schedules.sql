-- Schedules: what fires when, for which scopes, and a ledger of every planned fire.
-- min_code: 1

-- What is to fire, when and as which job. The columns of the job are those of job itself, with the same checks: no row
-- that stands here can make a fire of many fail. What only code can judge (an expression, a zone) it judges when it
-- plans, and writes what is wrong into error.
create table {schema}.schedule (
  name         text primary key check (char_length(name) between 1 and 200),
  version      bigint not null default 1,
  created_at   timestamptz not null default now() check (created_at between '1900-01-01Z' and '9001-01-01Z'),
  changed_at   timestamptz not null default now(),
  declared_at  timestamptz check (isfinite(declared_at)),
  has_scopes   boolean not null default false,
  timing       jsonb not null,
  rules        jsonb not null default '{}',
  history      interval not null default '30 days' check (history between interval '0' and interval '36525 days'),
  paused_at    timestamptz check (isfinite(paused_at)),
  paused_until timestamptz check (isfinite(paused_until)),
  pause_note   text,
  priority     smallint not null default 5 check (priority between 0 and 9),
  max_attempts smallint not null default 20 check (max_attempts > 0),
  kind         text not null check (char_length(kind) between 1 and 200),
  queue        text not null default 'default' check (char_length(queue) between 1 and 200),
  args         jsonb not null default '{}' check (jsonb_typeof(args) = 'object'),
  backoff      jsonb,
  timeout      interval check (timeout > interval '0' and timeout <= interval '36525 days'),
  keep         interval check (keep >= interval '0' and keep <= interval '36525 days'),
  on_lost      text check (on_lost in ('retry', 'fail')),
  tags         text[],
  error        text
);

-- How far each scope of a schedule has come. last_plan_at never goes back and outlives the plans themselves, so that a
-- plan that was pruned cannot fire again. A schedule for the whole app has one scope, whose name is empty.
create table {schema}.schedule_scope (
  schedule     text not null check (char_length(schedule) between 1 and 200),
  scope        text not null default '' check (char_length(scope) <= 200),
  created_at   timestamptz not null default now() check (isfinite(created_at)),
  since_at     timestamptz not null default now() check (since_at between '1900-01-01Z' and '9001-01-01Z'),
  last_plan_at timestamptz check (last_plan_at between '1900-01-01Z' and '9001-01-01Z'),
  next_at      timestamptz default now() check (isfinite(next_at)),
  pruned_until timestamptz check (isfinite(pruned_until)),
  gone_at      timestamptz check (isfinite(gone_at)),
  job          bigint,
  skips        timestamptz[] check (not 'infinity' = any(skips) and not '-infinity' = any(skips)),
  zone         text,
  args         jsonb check (jsonb_typeof(args) = 'object'),
  error        text,
  primary key (schedule, scope)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
create index schedule_scope_next_at on {schema}.schedule_scope (next_at) where next_at is not null;

-- Every planned fire and what was decided about it. What became of its job is looked up while the job is known, and
-- copied here when it is pruned. The scope is last in the key: plans come in the order of time, for all scopes at once.
create table {schema}.plan (
  schedule   text not null,
  scope      text not null,
  plan_time  timestamptz not null,
  earliest   timestamptz,
  decided_at timestamptz not null,
  keep_until timestamptz not null,
  run_at     timestamptz,
  job        bigint,
  count      integer not null default 1 check (count > 0),
  decision   text not null,
  reason     text,
  outcome    {schema}.outcome,
  attempts   smallint,
  error_code text,
  duration   interval,
  flag       text,
  result     jsonb,
  constraint plan_identity primary key (schedule, plan_time, scope)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index plan_keep_until on {schema}.plan (keep_until);

-- Every plan with what became of its job: where the job stands, or how it ended, also after it was pruned.
-- A handler whose result is an object with a number called rows_affected shows it in a column of its own.
create view {schema}.plans as
select p.schedule, p.scope, p.plan_time, p.decision, p.reason, p.count, p.earliest, p.decided_at,
       p.decided_at - p.plan_time as lag, p.run_at, p.job,
       coalesce(p.outcome::text, f.outcome::text, j.state) as state,
       coalesce(p.attempts, f.attempt, j.attempt) as attempts, j.max_attempts,
       case when j.state = 'scheduled' and j.attempt > 0 then j.run_at end as next_retry_at,
       coalesce(p.error_code, f.error ->> 'code') as error_code,
       coalesce(f.error, j.error) as error,
       coalesce(p.duration, f.finished_at - f.started_at) as duration,
       case when jsonb_typeof(coalesce(p.result, f.result) -> 'rows_affected') = 'number'
            then (coalesce(p.result, f.result) ->> 'rows_affected')::numeric end as rows_affected,
       coalesce(p.result, f.result) as result,
       coalesce(p.flag, f.flag) as flag
  from {schema}.plan p
  left join {schema}.ledger f on f.job = p.job and f.is_final
  left join {schema}.jobs j on j.id = p.job;
