-- Ends that no worker of the job could tell of: they are written down, so that its hooks are called all the same.
-- min_code: 1

-- Which hooks a worker has: an object from outcome to kinds. A job that ends otherwise than by its worker leaves a notice
-- only if a worker that knows its kind has a hook for that, or if no worker says anything. NULL: older code.
alter table {schema}.worker add column hears jsonb;

-- An end or a lost attempt that the hooks of its kind are still to be told of. All that they are given is here: the job
-- may be forgotten by then. `teller` has taken it; it is free again once that worker is gone.
create table {schema}.notice (
  job          bigint not null,
  run          bigint not null,
  at           timestamptz not null,
  created_at   timestamptz not null,
  deadline_at  timestamptz,
  said_at      timestamptz,
  worker       bigint,
  teller       bigint,
  outcome      {schema}.outcome not null,
  attempt      smallint not null,
  max_attempts smallint not null,
  priority     smallint not null,
  tries        smallint not null default 0,
  kind         text not null,
  queue        text not null,
  tags         text[],
  origin       jsonb,
  error        jsonb,
  primary key (kind, job, run)
) with (autovacuum_vacuum_scale_factor = 0.02);

create index notice_said_at on {schema}.notice (said_at, at);
