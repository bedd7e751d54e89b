"""The database that operators ask about: a fifth of its jobs waits, a tenth is dead, most have succeeded.

It is made once. What is measured is a copy, so that a worker may change it, and whoever keeps the directory
finds it as it was.
"""

import psycopg
from psycopg import sql

from holdfast import App
from holdfast.postgres.embedded import EmbeddedServer

_COPY = "asked"

_FILL = """
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args, tags)
select n, now() - make_interval(secs => ({jobs} - n) / 50.0), 5, 20, 'kind_' || n % 20, 'queue_' || n % 7,
       json_build_object('customer', n, 'locale', 'nb'), case when n % 1000 = 0 then array['vip'] end
  from generate_series(1, {jobs}) n;
insert into holdfast.ready (job, ready_at, attempt, priority, segment, queue, kind)
select n, now(), 0, 5, n % 4, 'queue_' || n % 7, 'kind_' || n % 20 from generate_series({ready}, {jobs}) n;
insert into holdfast.scheduled (job, run_at, attempt)
select n, now() + interval '30 days', n % 3 from generate_series({scheduled}, {ready} - 1) n;
insert into holdfast.ledger
       (job, run, ready_at, started_at, finished_at, keep_until, worker, attempt, is_final, queue, kind,
        outcome, error)
select n, n, now(), now(), now(), now() + interval '30 days', 1, 1, true, 'queue_' || n % 7,
       'kind_' || n % 20,
       case when n % 7 = 0 then 'failed' when n % 100000 = 1 then 'cancelled' else 'succeeded'
       end::holdfast.outcome,
       case when n % 7 = 0
            then jsonb_build_object('code', 'handler_error', 'type', 'ValueError', 'message', 'no card ' || n)
       end
  from generate_series(1, {scheduled} - 1) n;
insert into holdfast.dead (job, run, died_at)
select n, n, now() from generate_series(7, {scheduled} - 1, 7) n;
insert into holdfast.kind
       (name, first_seen_at, last_seen_at, priority, max_attempts, style, queue, version, parameters, secrets)
select 'kind_' || n, now(), now(), 5, 20, 'coroutine', 'queue_1', '1', '{{}}', '{{}}'
  from generate_series(0, 19) n;
insert into holdfast.counter
       (minute, queue, kind, outcome, runs, run_time, wait_time, wait_buckets, wait_counts, run_buckets,
        run_counts)
select date_trunc('minute', now()) - m * interval '1 minute', 'queue_' || k % 7, 'kind_' || k,
       case when k = 3 then 'failed' else 'succeeded' end::holdfast.outcome, 120, '2 min', '1 min',
       '{{-20,-15,-10,-9,-8,-5,0,3}}', '{{1,4,20,30,30,20,14,1}}', '{{-12,-11,-10,-9,-8,-5}}',
       '{{20,20,20,20,20,20}}'
  from generate_series(0, {minutes}) m, generate_series(0, 19) k;
insert into holdfast.beginning (minute, queue, kind, enqueued, started)
select minute, queue, kind, runs, runs from holdfast.counter;
insert into holdfast.counter_hour
select date_trunc('hour', now()) - h * interval '1 hour', queue, kind, outcome, runs, run_time, wait_time,
       wait_buckets, wait_counts, run_buckets, run_counts
  from generate_series(0, {hours}) h, holdfast.counter c
 where minute = (select max(minute) from holdfast.counter);
insert into holdfast.beginning_hour (hour, queue, kind, enqueued, started)
select hour, queue, kind, runs, runs from holdfast.counter_hour;
update holdfast.enqueue_mark set job = {jobs};
select setval('holdfast.job_id_seq', {jobs}), setval('holdfast.run', {jobs});
"""


def ensure_filled(server: EmbeddedServer, jobs: int) -> bool:
    """Whether it had to be made: a directory that was kept may have it already."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        if connection.execute("select 1 from pg_database where datname = %s", [_filled(jobs)]).fetchone():
            return False
        unfinished = f"{_filled(jobs)}_unfinished"
        connection.execute(_sql("drop database if exists {}", unfinished))
        connection.execute(_sql("create database {}", unfinished))
        _fill(server.dsn_for(unfinished), jobs)
        connection.execute(_sql("alter database {} rename to {}", unfinished, _filled(jobs)))
        return True


def make_copy(server: EmbeddedServer, jobs: int) -> None:
    drop_copy(server)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(_sql("create database {} template {} strategy file_copy", _COPY, _filled(jobs)))
        connection.execute("checkpoint")


def copy_of(server: EmbeddedServer) -> str:
    """Its DSN, also after a restart of the server."""
    return server.dsn_for(_COPY)


def drop_copy(server: EmbeddedServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(_sql("drop database if exists {} with (force)", _COPY))


def _fill(dsn: str, jobs: int) -> None:
    app = App(dsn)
    app.migrate_sync()
    app.close_sync()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        text = _FILL.format(
            jobs=jobs,
            ready=jobs - jobs // 5 + 1,
            scheduled=jobs - jobs // 4 + 1,
            minutes=min(7 * 24 * 60, jobs // 100),
            hours=min(90 * 24, jobs // 100),
        )
        for statement in text.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode())
        connection.execute("vacuum analyze")


def _filled(jobs: int) -> str:
    return f"filled_{jobs}"


def _sql(text: str, *names: str) -> sql.Composed:
    return sql.SQL(text).format(*map(sql.Identifier, names))
