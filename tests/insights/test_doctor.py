"""`app.doctor()`: each finding is produced by a situation that teams meet."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast import App
from holdfast.insights import diagnosis
from holdfast.insights.diagnosis import Finding, FindingCode, Thresholds
from holdfast.insights.doctor import DoctorReport, examine
from holdfast.insights.harmful_settings import HARMFUL
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations import standing
from holdfast.postgres.pooler_detection import PoolerMode
from holdfast.storage.doctor import server_facts
from holdfast.storage.migrations import packaged
from support.engine import SCHEMA, Engine
from support.pgbouncer import pgbouncer
from support.server_faults import start_again, stop_now
from support.waiting import block_until

Run = Callable[..., Any]

AT_ONCE = Thresholds(transaction=timedelta(), locks=timedelta(), dead_rows=100)


def examined(dsn: str, limits: Thresholds | None = None) -> DoctorReport:
    return examine(Dsn.parse(dsn), SCHEMA, packaged(), limits)


def found(report: DoctorReport, code: FindingCode) -> list[Finding]:
    return [finding for finding in report.findings if finding.code == code]


def only(report: DoctorReport, code: FindingCode) -> Finding:
    findings = found(report, code)
    assert len(findings) == 1, report
    return findings[0]


@pytest.fixture
def run(dsn: str) -> Iterator[Run]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection.execute


@contextmanager
def a_role(run: Run, dsn: str, *grants: str) -> Iterator[str]:
    """The DSN of a role that may only do what is granted."""
    name = f"{conninfo_to_dict(dsn)['dbname']}_role"
    run(f"create role {name} login password 'x'")
    try:
        for grant in grants:
            run(f"grant {grant} to {name}")
        yield make_conninfo(dsn, user=name, password="x")  # for this test
    finally:
        run(f"drop owned by {name}")
        run(f"drop role {name}")


async def test_a_running_system_is_healthy_but_for_the_settings_of_the_test_server(
    app: App, dsn: str
) -> None:
    @app.job
    async def work() -> None: ...

    async with app.worker() as worker:
        await worker.started.wait()
        await (await work.enqueue()).result("30s")
        await asyncio.to_thread(block_until, lambda: not found(examined(dsn), "no_leader"), "a worker leads")
        report = await app.doctor()
    assert {finding.sentence.partition(" ")[0] for finding in report.findings} == {
        "fsync",
        "full_page_writes",
    }
    assert not report.is_healthy
    assert report.looked_at == (
        *("connection", "server", "notifications", "schema", "rights", "transactions", "tables"),
        *("work", "chores", "ring"),
    )


def test_a_server_that_cannot_be_reached_is_said_with_its_reason_and_no_password() -> None:
    report = examined("postgresql://ann:secret@127.0.0.1:1/shop")
    assert only(report, "unreachable").level == "error"
    assert "refused" in report.findings[0].sentence
    assert "secret" not in str(report)


def test_a_server_that_is_too_old_is_refused(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "OLDEST_SERVER", 99)
    assert "Holdfast needs 99 or later" in only(examined(dsn), "server_too_old").sentence


def test_a_database_without_our_tables_is_to_be_migrated(dsn: str, run: Run) -> None:
    run("drop schema holdfast cascade")
    report = examined(dsn)
    assert only(report, "schema_missing").advice == 'Run "holdfast migrate".'
    assert "work" not in report.looked_at


def test_a_schema_that_is_behind_is_to_be_migrated(dsn: str, run: Run) -> None:
    run("delete from holdfast.migration where version = (select max(version) from holdfast.migration)")
    assert only(examined(dsn), "schema_outdated").advice == 'Run "holdfast migrate".'


def test_missing_rights_are_named_with_the_grant_that_gives_them(dsn: str, run: Run) -> None:
    tables = "all tables in schema holdfast"
    grants = (f"select, insert, update, delete, truncate on {tables}", "usage on schema holdfast")
    with a_role(run, dsn, *grants, "usage on all sequences in schema holdfast") as theirs:
        assert not found(examined(theirs), "missing_rights")
        role = conninfo_to_dict(theirs)["user"]
        run(f"revoke truncate on holdfast.ready_2 from {role}")
        run(f"revoke update, delete on holdfast.lease from {role}")
        run(f"revoke usage on sequence holdfast.run from {role}")
        assert [finding.advice for finding in found(examined(theirs), "missing_rights")] == [
            f"As the owner: grant delete, update on table holdfast.lease to {role};",
            f"As the owner: grant truncate on table holdfast.ready_2 to {role};",
            f"As the owner: grant usage on sequence holdfast.run to {role};",
        ]


def test_what_a_role_may_not_look_at_is_said_and_the_rest_is_looked_at(dsn: str, run: Run) -> None:
    with (
        a_role(run, dsn, "usage on schema holdfast", "select on holdfast.migration") as theirs,
        psycopg.connect(dsn, autocommit=True) as another,
    ):
        another.execute("select 1")
        report = examined(theirs)
        assert any("work could not be looked at" in each.sentence for each in found(report, "not_looked"))
        assert "pg_read_all_stats" in only(report, "unseen_sessions").advice


def test_a_standby_can_only_be_read(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "pg", settings={"fsync": "off"}) as server:
        stop_now(server, "fast")
        (server._layout.data / "standby.signal").touch()
        start_again(server)
        assert "standby" in only(examined(server.dsn), "read_only").sentence


def test_a_database_of_another_encoding_is_refused(dsn: str, run: Run) -> None:
    name = f"{conninfo_to_dict(dsn)['dbname']}_latin"
    run(f"create database {name} encoding 'LATIN1' locale 'C' template template0")
    try:
        assert "LATIN1" in only(examined(make_conninfo(dsn, dbname=name)), "encoding").sentence
    finally:
        run(f"drop database {name} with (force)")


def test_clocks_that_differ_are_noted(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        [facts] = run_on_blocking(connection, server_facts(SCHEMA))
    here = facts.now - timedelta(hours=1)
    findings = diagnosis.of_server(facts, here=here, limits=Thresholds())
    [finding] = [each for each in findings if each.code == "clock_skew"]
    assert "differ by 1h" in finding.sentence
    assert not found(examined(dsn), "clock_skew")


def test_few_connections_are_warned_of(dsn: str) -> None:
    assert only(examined(dsn, Thresholds(connections=1_000)), "few_connections").level == "warning"


IN_A_DATABASE = {
    "synchronous_commit": "off",
    "default_transaction_read_only": "on",
    "statement_timeout": "'4s'",
    "idle_in_transaction_session_timeout": "'4s'",
    "default_transaction_isolation": "serializable",
    "transaction_timeout": "'30s'",
}
OF_A_SERVER = {"autovacuum": "off", "track_counts": "off", "max_wal_size": "64MB"}
OF_THE_TEST_SERVER = {"fsync", "full_page_writes"}


def test_every_setting_that_does_harm_is_tried() -> None:
    assert {harm.name for harm in HARMFUL} == {*IN_A_DATABASE, *OF_A_SERVER, *OF_THE_TEST_SERVER}


@pytest.mark.parametrize("name", IN_A_DATABASE)
def test_a_setting_of_a_database_that_does_harm_is_named(dsn: str, run: Run, name: str) -> None:
    if run("select from pg_settings where name = %s", [name]).fetchone() is None:
        assert name == "transaction_timeout", "new in Postgres 17"
        return
    database = sql.Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    value = sql.SQL(IN_A_DATABASE[name])
    run(sql.SQL("alter database {} set {} = {}").format(database, sql.Identifier(name), value))
    report = examined(dsn)
    [finding] = [each for each in found(report, "setting") if each.sentence.startswith(f"{name} is")]
    [harm] = [harm for harm in HARMFUL if harm.name == name]
    assert (finding.level, finding.advice) == (harm.level, harm.advice)


def test_settings_of_a_server_and_a_full_queue_of_notifications(tmp_path: Path) -> None:
    """A session that listens, and has a transaction open, keeps every notification since then."""
    settings = {"fsync": "off", **OF_A_SERVER}
    with EmbeddedServer.start(tmp_path / "pg", settings=settings) as server:
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            has_bound = admin.info.server_version >= 170000
            if has_bound:
                admin.execute("alter system set max_notify_queue_pages = 64")
        stop_now(server, "fast")
        start_again(server)
        with (
            psycopg.connect(server.dsn) as listening,
            psycopg.connect(server.dsn, autocommit=True) as sender,
        ):
            named = {each.sentence.split()[0] for each in found(examined(server.dsn), "setting")}
            assert named == {"fsync", *OF_A_SERVER}
            listening.execute("listen a")
            listening.commit()
            listening.execute("select 1")
            if has_bound:
                for _ in range(50):
                    sender.execute(
                        "select pg_notify('a', i || repeat('x', 7000)) from generate_series(1, 1) i"
                    )
                assert "full" in only(examined(server.dsn), "notify_queue_full").sentence


@pytest.mark.machine
@pytest.mark.root
def test_a_transaction_pooler_is_noted(dsn: str) -> None:
    with pgbouncer(dsn, "transaction") as front:
        report = examined(front)
    assert only(report, "pooler").level == "note"
    assert not found(report, "no_notifications")


def test_a_notification_that_does_not_arrive_is_warned_of() -> None:
    [finding] = diagnosis.of_way(PoolerMode.DIRECT, is_delivered=False)
    assert finding.code == "no_notifications"


def test_a_long_transaction_is_named_with_how_to_end_it(dsn: str) -> None:
    with psycopg.connect(dsn, application_name="report") as forgotten:
        forgotten.execute("create table mine ()")
        finding = only(examined(dsn, AT_ONCE), "long_transaction")
        assert f"(report, process {forgotten.info.backend_pid}, idle in transaction)" in finding.sentence
        assert not found(examined(dsn), "long_transaction")
        with psycopg.connect(dsn, autocommit=True) as operator:
            operator.execute(finding.advice.removeprefix("End it: ").encode())
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("select 1")


def test_a_transaction_that_holds_our_tables_names_them(dsn: str) -> None:
    with psycopg.connect(dsn) as dump:
        dump.execute("select count(*) from holdfast.ready_1")
        finding = only(examined(dsn, AT_ONCE), "tables_locked")
    assert "holds locks on holdfast.ready_1" in finding.sentence


def test_a_prepared_transaction_is_named_with_how_to_end_it(dsn: str, run: Run) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("begin; create table mine (); prepare transaction 'left'")
    finding = only(examined(dsn, AT_ONCE), "long_transaction")
    assert 'prepared as "left"' in finding.sentence
    run(finding.advice.removeprefix("End it: ").encode())
    assert not found(examined(dsn, AT_ONCE), "long_transaction")


def test_tables_full_of_dead_rows_are_named(dsn: str, run: Run) -> None:
    with psycopg.connect(dsn) as pinning:
        pinning.execute("set transaction isolation level repeatable read")
        pinning.execute("select 1")
        run("insert into holdfast.saved (job, saved_at) select i, now() from generate_series(1, 500) i")
        run("delete from holdfast.saved")
        block_until(lambda: bool(found(examined(dsn, AT_ONCE), "dead_rows")), "the statistics know it")
        finding = only(examined(dsn, AT_ONCE), "dead_rows")
    assert finding.sentence.startswith("holdfast.saved has 500 dead and 0 live rows")


def test_a_ring_that_does_not_turn_is_noticed(dsn: str, run: Run) -> None:
    """As while a transaction that enqueued stays open: drained, and not truncated."""
    run(
        "insert into holdfast.ready (queue, priority, job, segment, kind, attempt, ready_at)"
        " select 'default', 5, i, 2, 'mail', 0, now() from generate_series(1, 20000) i"
    )
    run("delete from holdfast.ready")
    run("update holdfast.ring set turned_at = now() - interval '1 hour'")
    assert not found(examined(dsn), "ring_stuck"), "without a leader nobody turns it"
    run("insert into holdfast.leader (worker, term, expires_at) values (1, 1, now() + interval '1 hour')")
    assert "ready_2 is drained" in only(examined(dsn), "ring_stuck").sentence


def test_without_a_worker_no_job_runs(dsn: str) -> None:
    assert only(examined(dsn), "no_worker").advice == "Start one with: holdfast worker -A …"


def test_workers_without_a_leader_and_silent_ones_are_warned_of(dsn: str, run: Run) -> None:
    with Engine.on(dsn, now=None) as engine:
        engine.worker()
        silent = engine.worker()
    run(
        "update holdfast.worker set expires_at = now() - interval '1 minute', pid = 77 where id = %s",
        [silent],
    )
    report = examined(dsn)
    assert only(report, "no_leader").level == "warning"
    assert (
        f"Worker {silent} (process 77 on host) sent its last heartbeat"
        in only(report, "worker_silent").sentence
    )
    assert only(report, "worker_silent").level == "warning"
    run("update holdfast.worker set lost_at = now() where id = %s", [silent])
    assert only(examined(dsn), "worker_silent").level == "note", "its jobs run elsewhere"


def test_what_the_leader_has_not_done_in_time_is_warned_of(dsn: str, run: Run) -> None:
    with Engine.on(dsn, now=None) as engine:
        engine.enqueue(delay=timedelta(hours=1))
    run("update holdfast.scheduled set run_at = now() - interval '10 minutes'")
    run(
        "insert into holdfast.ledger"
        " (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind)"
        " values (9, 9, now(), now() - interval '2 hours', 'cancelled', 1, true, 'default', 'mail')"
    )
    run(
        "insert into holdfast.tally (minute, outcome, queue, kind, runs, run_time)"
        " values (now() - interval '3 hours', 'succeeded', 'default', 'mail', 1, '1 second')"
    )
    run(
        "insert into holdfast.schedule (name, created_at, changed_at, timing, kind, error)"
        " values ('report', now(), now(), '{}', 'mail', 'no such time zone')"
    )
    run(
        "insert into holdfast.schedule_scope (schedule, created_at, since_at, next_at)"
        " values ('report', now(), now(), now() - interval '5 minutes')"
    )
    report = examined(dsn)
    assert "for 10m" in only(report, "promote_behind").sentence
    assert "for 2h" in only(report, "prune_behind").sentence
    assert "for 3h" in only(report, "fold_behind").sentence
    assert "for 5m" in only(report, "plans_behind").sentence
    assert only(report, "schedule_error").sentence == (
        'The schedule "report" cannot be planned: no such time zone.'
    )


async def test_paused_queues_and_what_nobody_serves_are_told(app: App, dsn: str) -> None:
    @app.job(queue="mail")
    async def send() -> None: ...

    await app.queues.pause("mail")
    with Engine.on(dsn, now=None) as engine:
        engine.worker(queues=("mail",), kinds=("send",))
    await send.using(queue="mial").enqueue()
    report = await app.doctor()
    assert only(report, "queue_paused").advice == "Resume it with: holdfast queues resume mail"
    sentence = only(report, "queue_unserved").sentence
    assert sentence == '1 job waits in the queue "mial", which no live worker serves; did you mean "mail"?'


async def test_what_an_overview_tells_the_doctor_tells_in_the_same_words(app: App, dsn: str) -> None:
    @app.job(queue="mail")
    async def send() -> None: ...

    await app.queues.pause("mail")
    with Engine.on(dsn, now=None) as engine:
        engine.worker(queues=("mail",), kinds=("send",))
    await send.using(queue="pdf").enqueue()
    overview, report = await app.overview(), await app.doctor()
    told = {(each.reason, each.level, each.advice) for each in overview.attention}
    assert {reason for reason, _, _ in told} == {"no_leader", "queue_unserved", "queue_paused"}
    assert told <= {(each.code, each.level, each.advice) for each in report.findings}


def test_the_worst_comes_first_and_notes_are_healthy() -> None:
    note = Finding("queue_paused", "note", "…", "")
    report = DoctorReport("here", (note,), ())
    assert report.is_healthy
    assert not replace(report, findings=(replace(note, level="warning"),)).is_healthy
