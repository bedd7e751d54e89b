-- Actions on all jobs that match a filter.
-- min_code: 1

-- An action goes through the jobs that match, newest first, a batch in one transaction: what was done to the batch, how far it came
-- (cursor, as lists of jobs have it) and the counts are committed together. So any process can go on with it after another one, and
-- nothing is done twice. Jobs that are enqueued after it began are left alone.
create table {schema}.operation (
  id          bigint generated always as identity primary key,
  created_at  timestamptz not null,
  advanced_at timestamptz not null,
  ended_at    timestamptz,
  seen        bigint not null default 0,
  state       text not null default 'running',
  action      text not null,
  filter      text not null,
  by          text not null,
  reason      text,
  cursor      text,
  parameters  jsonb not null,
  counts      jsonb not null default '{}'
) with (fillfactor = 70);
create index operation_running on {schema}.operation (id) where ended_at is null;
