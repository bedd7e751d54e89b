-- Groups: jobs whose ends are awaited together, and the job that follows them.
-- min_code: 1

-- id comes from the sequence of jobs: `parent` of a member is its group, and no job has the same number. Open: ended_at is NULL.
-- closed_at: every member has ended, and what follows is enqueued: then_job, from on_success or on_failure, which are jobs as they were
-- asked for. ended_at: that one has ended too, or there is none. The counts are those of members; the leader adds up the ends as they
-- come, and counts exactly when it closes the group. gone: members that were deleted by hand. guests: members that were there
-- before, and stand for a call with their unique key. Before awaited_place every member had ended when the leader looked; up to cancelled_place it
-- has cancelled them. keep_until is that of the row and its members.
create table {schema}.job_group (
  id              bigint primary key,
  created_at      timestamptz not null,
  closed_at       timestamptz,
  ended_at        timestamptz,
  keep_until      timestamptz,
  cancelled_at    timestamptz,
  then_job        bigint,
  members         integer not null default 0,
  guests          integer not null default 0,
  succeeded       integer not null default 0,
  failed          integer not null default 0,
  cancelled       integer not null default 0,
  expired         integer not null default 0,
  gone            integer not null default 0,
  awaited_place   integer not null default 0,
  cancelled_place integer not null default 0,
  has_failed      boolean,
  name            text,
  cancel_reason   text,
  tags            text[],
  on_success      jsonb,
  on_failure      jsonb
) with (fillfactor = 50);

create index job_group_open on {schema}.job_group (id) where ended_at is null;
create index job_group_keep_until on {schema}.job_group (keep_until) where keep_until is not null;

-- The members of a group in the order of its calls, from 0 on. The job that follows comes behind the last of them. A job that stands
-- for several calls, by its unique key, has a row for each. Deleted with the group.
create table {schema}.group_member (
  job_group bigint not null,
  place     integer not null,
  job       bigint not null,
  primary key (job_group, place)
);

create index group_member_job on {schema}.group_member (job);
