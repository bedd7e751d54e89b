-- What operators see of jobs: what code has declared of each kind, and the few jobs that were stopped among the many.
-- min_code: 1

-- Written by each worker at its start, so the newest start wins; but a place that was secret once stays secret, since an older
-- worker that starts again does not know it. parameters is a JSON Schema. secrets are paths as domain/redaction.py reads them.
create table {schema}.kind (
  name          text primary key check (char_length(name) between 1 and 200),
  first_seen_at timestamptz not null,
  last_seen_at  timestamptz not null,
  priority      smallint not null,
  max_attempts  smallint not null,
  style         text not null,
  queue         text not null,
  version       text not null,
  parameters    jsonb not null,
  backoff       jsonb,
  timeout       interval,
  keep          interval,
  secrets       text[] not null
);

-- Jobs that were cancelled or have expired are found among millions of successes, which pay nothing for it.
create index ledger_stopped on {schema}.ledger (job) where is_final and outcome in ('cancelled', 'expired');
