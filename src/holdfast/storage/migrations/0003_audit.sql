-- Who did what to jobs and queues.
-- min_code: 1

-- One row for each action of an operator, however many jobs it concerned. counts: how many jobs got which answer.
create table {schema}.audit (
  id      bigint generated always as identity primary key,
  at      timestamptz not null,
  action  text not null,
  by      text not null,
  target  text not null,
  reason  text,
  counts  jsonb not null
);
create index audit_at on {schema}.audit (at);
