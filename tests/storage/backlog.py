"""A database with a million ready, a million scheduled and a million finished jobs, built in seconds."""

from datetime import UTC, datetime

import psycopg

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MILLION = 1_000_000
TOUCHED = 20_000
NOTICES = 100_000
GROUPS = 20_000
FINGERPRINT = "feedfeedfeedfeed"
"""Of all 100,000 dead letters."""

# Statistics are made on purpose here: autovacuum must not make them meanwhile.
_QUIET = [
    f"alter table holdfast.{table} set (autovacuum_enabled = off)"
    for table in [
        "job",
        "ready_0",
        "ready_1",
        "ready_2",
        "ready_3",
        "scheduled",
        "ledger",
        "dead",
        "lease",
        "notice",
        "failure_group",
        "failure_count",
        "failure_tally",
        "run_log",
        "unique_key",
    ]
]

# Indexes are built after the rows, which is many times faster; and what is only looked up by key needs a wide
# row only where a statement will look: the first of the ready and of the scheduled, all of the finished.
_JOBS = f"""
alter table holdfast.job drop constraint job_pkey;
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args)
select n, '2026-01-01Z', n % 10, 20, 'mail', 'default', '{{}}'
  from generate_series(1, {3 * MILLION}) n
 where n <= {TOUCHED} or n between {MILLION} and {MILLION + TOUCHED} or n > {2 * MILLION};
alter table holdfast.job add constraint job_pkey primary key (id);
"""

_READY = f"""
alter table holdfast.ready drop constraint ready_pkey;
drop index holdfast.ready_deadline;
insert into holdfast.ready (job, ready_at, deadline_at, attempt, priority, segment, queue, kind)
select n, '2026-01-01Z',
       case when n % 100 = 1 then timestamptz '2026-01-01Z' + (n - 10000) * interval '1 second' end, 0,
       n % 10, n % 4, 'default', 'mail'
  from generate_series(1, {MILLION}) n;
alter table holdfast.ready add primary key (queue, priority, job, segment);
create index ready_deadline on holdfast.ready (deadline_at) where deadline_at is not null;
"""

_SCHEDULED = f"""
alter table holdfast.scheduled drop constraint scheduled_pkey;
drop index holdfast.scheduled_run_at, holdfast.scheduled_deadline;
insert into holdfast.scheduled (job, run_at, deadline_at, attempt)
select n, timestamptz '2026-01-01Z' + (n - {MILLION + TOUCHED}) * interval '1 second',
       case when n % 100 = 1 then timestamptz '2026-01-01Z' + (n - {MILLION + 10000}) * interval '1 s' end, 1
  from generate_series({MILLION + 1}, {2 * MILLION}) n;
alter table holdfast.scheduled add primary key (job);
create index scheduled_run_at on holdfast.scheduled (run_at);
create index scheduled_deadline on holdfast.scheduled (deadline_at) where deadline_at is not null;
"""

_FINISHED = f"""
alter table holdfast.ledger drop constraint ledger_pkey;
drop index holdfast.ledger_keep_until;
insert into holdfast.ledger
       (job, run, started_at, finished_at, keep_until, worker, outcome, attempt, is_final, queue, kind)
select n, n, '2026-01-01Z', '2026-01-01Z',
       timestamptz '2026-01-01Z' + (n - {2 * MILLION + TOUCHED}) * interval '1 second', 1,
       case when n % 10 = 0 then 'failed' else 'succeeded' end::holdfast.outcome, 1, true, 'default', 'mail'
  from generate_series({2 * MILLION + 1}, {3 * MILLION}) n;
alter table holdfast.ledger add primary key (job, run);
create index ledger_keep_until on holdfast.ledger (keep_until) where is_final;
drop index holdfast.dead_fingerprint;
insert into holdfast.dead (job, run, died_at, fingerprint)
select n, n, timestamptz '2026-01-01Z' - n * interval '1 second', '{FINGERPRINT}'
  from generate_series({2 * MILLION + 10}, {3 * MILLION}, 10) n;
create index dead_fingerprint on holdfast.dead (fingerprint, job) where fingerprint is not null;
select setval('holdfast.run', {3 * MILLION}), setval('holdfast.job_id_seq', {3 * MILLION});
"""

_RUNNING = """
insert into holdfast.worker
       (host, pid, version, queues, kinds, slots, started_at, beat_at, expires_at, lost_at)
select 'host', n, '0', '{default}', '{mail}', 100, '2026-01-01Z', '2026-01-01Z', '2026-01-01 00:01Z',
       case when n > 45 then timestamptz '2026-01-01Z' end
  from generate_series(1, 50) n;
insert into holdfast.job (created_at, priority, max_attempts, kind, queue, args)
select '2026-01-01Z', 5, 20, 'mail', 'default', '{}' from generate_series(1, 5000);
insert into holdfast.lease (worker, job, run, started_at, timeout_at, attempt, is_plain, queue, kind)
select id % 50 + 1, id, nextval('holdfast.run'), '2026-01-01Z', '2026-01-01 01:00Z', 1, is_plain,
       case when is_plain then queue end, case when is_plain then kind end
  from (select *, id % 100 = 0 as is_plain from holdfast.job) job where id > 3000000;
"""

# Ends that no worker has reported: of kinds that a worker knows, and of one that no worker knows any more.
_NOTICES = f"""
insert into holdfast.notice
       (job, run, at, created_at, said_at, outcome, attempt, max_attempts, priority, kind, queue)
select n, n, timestamptz '2026-01-01Z' - n * interval '1 second', '2026-01-01Z',
       case when n % 2 = 0 then timestamptz '2026-01-01Z' - n * interval '10 seconds' end, 'failed', 1, 1, 5,
       (array['a kind of long ago', 'mail', 'pay'])[n % 3 + 1], 'default'
  from generate_series(1, {NOTICES}) n;
"""

# Groups of failures, one of which all dead letters belong to, each counted in ten of the last 100 minutes.
_FAILURES = f"""
insert into holdfast.failure_group
       (fingerprint, first_seen_at, last_seen_at, job, run, kind, queue, code, type, message)
select case n when 1 then '{FINGERPRINT}' else 'group' || n end, '2025-12-25Z',
       timestamptz '2026-01-01Z' - n * interval '1 second', {3 * MILLION}, {3 * MILLION},
       (array['mail', 'pay'])[n % 2 + 1], 'default', 'handler_error', 'ValueError', 'no'
  from generate_series(1, {GROUPS}) n;
insert into holdfast.failure_count (fingerprint, began_at, kind, queue, runs)
select fingerprint, timestamptz '2026-01-01Z' - t * interval '10 minutes', kind, queue, job % 7 + 1
  from holdfast.failure_group, generate_series(1, 10) t;
insert into holdfast.failure_tally (seen_at, job, run, runs, fingerprint, kind, queue)
select last_seen_at, job, run, 1, fingerprint, kind, queue from holdfast.failure_group;
"""


# Three rows of log lines for each of 50,000 jobs, and 200 for one.
_LOGS = f"""
insert into holdfast.run_log (job, run, written_at, first, last, lines)
select n, n, '2026-01-01Z', 2 * i - 1, 2 * i, '[{{}}, {{}}]'
  from generate_series({2 * MILLION + 1}, {2 * MILLION + 50_000}) n,
       generate_series(1, case when n = {2 * MILLION + 5} then 200 else 3 end) i;
"""


# Unique keys of jobs that wait, of jobs that have ended and keep theirs for a time, and of 100 ready jobs in
# a queue of their own, whose ids no new job gets.
_KEYS = f"""
insert into holdfast.unique_key (queue, key, job)
select 'default', 'k' || n, n from generate_series(1, {TOUCHED}) n
union all
select 'default', 'k' || n, n from generate_series({MILLION + 1}, {MILLION + TOUCHED}) n;
insert into holdfast.unique_key (queue, key, job, until)
select 'default', 'k' || n, n, timestamptz '2026-01-01Z' + (n - {2 * MILLION + 10_000}) * interval '1 second'
  from generate_series({2 * MILLION + 1}, {2 * MILLION + TOUCHED}) n;
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args, unique_key)
select -n, '2026-01-01Z', 5, 20, 'mail', 'keyed', '{{}}', 'k' || n from generate_series(1, 100) n;
insert into holdfast.ready (job, ready_at, attempt, priority, segment, queue, kind)
select id, created_at, 0, priority, 0, queue, kind from holdfast.job where id < 0;
insert into holdfast.unique_key (queue, key, job) select queue, unique_key, id from holdfast.job where id < 0;
"""


def fill(connection: psycopg.Connection) -> None:
    connection.execute("set maintenance_work_mem = '256MB'")
    connection.execute("set synchronous_commit = off")
    for part in (*_QUIET, _JOBS, _READY, _SCHEDULED, _FINISHED, _RUNNING, _NOTICES, _FAILURES, _LOGS, _KEYS):
        connection.execute(part)
    connection.execute("analyze")
