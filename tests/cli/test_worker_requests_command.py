"""`holdfast workers quiet | resume | stop | slots`: what real worker processes do when they are asked."""

import json
import os
import signal
from pathlib import Path

import psycopg
import pytest

from cli.worker_processes import Start, WorkerProcess, enqueue, reach, state_and_attempt
from holdfast.cli import main

pytestmark = pytest.mark.machine  # each starts several interpreters

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def named(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(["workers", *arguments]) == code
    return capsys.readouterr().out


def ids(conn: psycopg.Connection) -> list[int]:
    rows = conn.execute("select id from holdfast.worker where lost_at is null order by id").fetchall()
    return [row[0] for row in rows]


def started(start: Start, conn: psycopg.Connection, *arguments: str) -> tuple[WorkerProcess, int]:
    worker = start(*arguments)
    worker.wait_for_log("worker started")
    return worker, ids(conn)[-1]


def say_that(worker: WorkerProcess, conn: psycopg.Connection, identity: int, activity: str) -> None:
    def says() -> bool:
        question = "select activity from holdfast.worker where id = %s"
        return conn.execute(question, [identity]).fetchone() == (activity,)

    worker.wait_until(says, activity)


def test_a_process_is_quiet_until_it_is_resumed(
    start: Start, conn: psycopg.Connection, folder: Path, capsys: Captured
) -> None:
    worker, identity = started(start, conn)
    running = enqueue(conn, "wait_for", name=str(folder / "go"))
    reach(worker, conn, running, "running")
    out = told(capsys, "quiet", str(identity), "--reason", "deploy", "--by", "ann")
    assert out == (
        f"worker {identity} is asked to be quiet; 1 job runs there; "
        f"let it go on with: holdfast workers resume {identity}\n"
    )
    say_that(worker, conn, identity, "quiet")
    assert "quiet: claiming nothing until told to go on" in worker.log
    waiting = enqueue(conn, "send", "mail", number=1)
    (folder / "go").touch()
    reach(worker, conn, running, "succeeded")
    assert state_and_attempt(conn, waiting)[0] == "ready"
    listed = told(capsys, "list")
    assert "● live, quiet, leads" in listed
    shown = told(capsys, "show", str(identity))
    assert "  asked     to be quiet, " in shown
    assert " ago by ann: deploy\n" in shown
    assert told(capsys, "resume", str(identity)) == f"worker {identity} is asked to go on\n"
    reach(worker, conn, waiting, "succeeded")
    assert told(capsys, "resume", str(identity)) == f"worker {identity} was not quiet\n"


def test_slots_of_a_process_change_while_it_runs(
    start: Start, conn: psycopg.Connection, folder: Path, capsys: Captured
) -> None:
    worker, identity = started(start, conn, "-q", "default=1,mail=4")
    jobs = [enqueue(conn, "wait_for", name=str(folder / "go")) for _ in range(4)]
    worker.wait_until(
        lambda: [state_and_attempt(conn, job)[0] for job in jobs].count("running") == 1, "one runs"
    )
    out = told(capsys, "slots", str(identity), "default=3", "mail=2")
    assert out == f"worker {identity} is asked to change its slots: default 1 → 3, mail 4 → 2\n"
    worker.wait_until(
        lambda: [state_and_attempt(conn, job)[0] for job in jobs].count("running") == 3, "three run"
    )
    worker.wait_for_log("slots changed", times=2)
    assert "  slots     3 of 5 are used: default 3, mail 2\n" in told(capsys, "show", str(identity))
    [facts] = json.loads(told(capsys, "slots", str(identity), "default=1", "--json"))
    assert facts["asked_slots"] == {"default": 1, "mail": 2}
    (folder / "go").touch()
    for job in jobs:
        reach(worker, conn, job, "succeeded")


def test_a_process_that_is_stopped_lets_its_jobs_end_and_exits_with_0(
    start: Start, conn: psycopg.Connection, folder: Path, capsys: Captured
) -> None:
    worker, identity = started(start, conn)
    job = enqueue(conn, "wait_for", name=str(folder / "go"))
    reach(worker, conn, job, "running")
    assert told(capsys, "stop", str(identity), code=4) == "", "it asks first"
    out = told(capsys, "stop", str(identity), "--grace", "1h", "--yes")
    assert out == f"worker {identity} is asked to stop within 1h; 1 job runs there\n"
    say_that(worker, conn, identity, "stopping")
    assert main(["workers", "stop", str(identity), "--yes"]) == 4
    assert f"worker {identity} cannot be stopped: it is stopping already" in capsys.readouterr().err
    (folder / "go").touch()
    assert worker.ended() == 0
    assert state_and_attempt(conn, job) == ("succeeded", 1)
    assert ids(conn) == []


def test_a_process_that_is_stopped_now_gives_its_jobs_back(
    start: Start, conn: psycopg.Connection, folder: Path, capsys: Captured
) -> None:
    worker, identity = started(start, conn)
    job = enqueue(conn, "sleep_in_a_thread", seconds=600)
    reach(worker, conn, job, "running")
    told(capsys, "stop", str(identity), "--yes")
    say_that(worker, conn, identity, "stopping")
    told(capsys, "stop", str(identity), "--now", "--yes")
    assert worker.ended() == 0, "although a thread still runs"
    assert state_and_attempt(conn, job)[0] in ("ready", "scheduled", "running")


def test_a_supervisor_replaces_no_process_that_an_operator_has_stopped(
    start: Start, conn: psycopg.Connection, capsys: Captured
) -> None:
    worker = start("--processes", "2")
    worker.wait_for_log("worker started", times=2)
    first, second = ids(conn)
    told(capsys, "stop", str(first), "--yes")
    worker.wait_for_log("it is not replaced")
    worker.wait_until(lambda: len(worker.children()) == 1, "one process is left")
    job = enqueue(conn, "send", "mail", number=1)
    reach(worker, conn, job, "succeeded")
    assert ids(conn) == [second]
    assert "starting another" not in worker.log
    told(capsys, "stop", str(second), "--yes")
    assert worker.ended() == 0, "it supervises nothing any more"


def test_a_process_that_is_killed_after_a_request_is_replaced_by_one_that_works(
    start: Start, conn: psycopg.Connection, capsys: Captured
) -> None:
    worker = start("--processes", "2", "--lease", "2s")
    worker.wait_for_log("worker started", times=2)
    before = ids(conn)
    for pid in worker.children():
        os.kill(pid, signal.SIGSTOP)
    assert told(capsys, "quiet", *map(str, before)).count("is asked to be quiet") == 2
    for pid in worker.children():
        os.kill(pid, signal.SIGKILL)
    worker.wait_for_log("worker started", times=4)
    job = enqueue(conn, "send", "mail", number=1)
    reach(worker, conn, job, "succeeded")
    question = "select coalesce(activity, '') from holdfast.worker where id <> all(%s)"
    assert set(conn.execute(question, [before]).fetchall()) == {("working",)}


def test_what_one_worker_refuses_does_not_keep_the_others_from_being_asked(
    start: Start, conn: psycopg.Connection, capsys: Captured
) -> None:
    worker, identity = started(start, conn)
    assert main(["workers", "quiet", "999", str(identity)]) == 3
    captured = capsys.readouterr()
    assert "holdfast: there is no worker 999" in captured.err
    assert captured.err.startswith("holdfast: database "), "which database comes first"
    say_that(worker, conn, identity, "quiet")


@pytest.mark.parametrize(
    "arguments",
    [
        ("quiet",),
        ("quiet", "x"),
        ("slots", "1", "mail"),
        ("slots", "1", "mail=x"),
        ("slots", "1", "mail=1", "mail=2"),
        ("stop", "1", "--now", "--grace", "1m", "--yes"),
        ("stop", "1", "--grace", "soon", "--yes"),
    ],
)
def test_wrong_arguments_are_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert main(["workers", *arguments]) == 2
