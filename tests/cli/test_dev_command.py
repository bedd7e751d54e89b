"""`holdfast dev` as a process: it reloads, waits for mended code, and leaves nothing behind."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.dev_processes import SHOP, DevProcess, dev_process
from cli.worker_processes import enqueue, state_and_attempt
from holdfast.cli import main
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.postmaster import Postmaster
from support.waiting import block_until

pytestmark = pytest.mark.machine  # each starts several interpreters and a server

STARTED = "worker started"
WAITING = "waiting for the next save"

Dev = Callable[..., DevProcess]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP, "utf-8")
    return folder


@pytest.fixture
def dev(project: Path, dsn: str) -> Iterator[Dev]:
    with ExitStack() as stack:

        def started(*arguments: str, command: str = "dev") -> DevProcess:
            return stack.enter_context(dev_process(project, dsn, command, "-A", "shop:app", *arguments))

        yield started


def result(conn: psycopg.Connection, job: int) -> object:
    row = conn.execute("select result from holdfast.jobs where id = %s", [job]).fetchone()
    return row and row[0]


def reach(dev: DevProcess, conn: psycopg.Connection, job: int, state: str) -> None:
    dev.wait_until(lambda: state_and_attempt(conn, job)[0] == state, f"{state} job")


def is_alive(pid: int) -> bool:
    return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout[
        :1
    ] not in (b"", b"Z")


def test_the_next_job_runs_the_code_that_was_saved_even_within_one_second_of_the_last_save(
    dev: Dev, conn: psycopg.Connection, project: Path
) -> None:
    """Each text is as long as the one before, and only the fraction of a second tells it apart."""
    second = 1_700_000_000 * 10**9
    os.utime(project / "shop.py", ns=(second, second))
    worker = dev()
    worker.wait_for_log(STARTED)
    job = enqueue(conn, "answer")
    reach(worker, conn, job, "succeeded")
    assert result(conn, job) == "first"
    for number, word in enumerate(("other", "third"), 2):
        worker.save(SHOP.replace("first", word), at=second + number)
        worker.wait_for_log(STARTED, times=number)
        job = enqueue(conn, "answer")
        reach(worker, conn, job, "succeeded")
        assert result(conn, job) == word
    assert worker.log.count("shop.py changed: reloading") == 2
    worker.signal()
    assert worker.ended() == 0
    assert conn.execute("select count(*) from holdfast.worker").fetchone() == (0,)


BROKEN = [
    ("def (", "shop.py:1: invalid syntax"),
    ("import not_there", "No module named 'not_there'"),
    ("from holdfast import App\napp = App()", "this app has no jobs"),
    ("from holdfast import App\nother = App()", "shop has no attribute 'app'; it has the app 'other'"),
    ("import sys\nsys.exit(0)", "SystemExit: 0"),
]


def test_code_that_cannot_run_is_shown_and_the_next_save_mends_it(dev: Dev, conn: psycopg.Connection) -> None:
    worker = dev()
    worker.wait_for_log(STARTED)
    for number, (broken, told) in enumerate(BROKEN, 1):
        worker.save(broken)
        worker.wait_for_log(WAITING, times=number)
        assert told in worker.log
    worker.save(SHOP)
    worker.wait_for_log(STARTED, times=2)
    job = enqueue(conn, "answer")
    reach(worker, conn, job, "succeeded")


def test_code_that_is_broken_from_the_start_is_waited_for_too(dev: Dev, project: Path) -> None:
    (project / "shop.py").write_text("def (", "utf-8")
    worker = dev()
    worker.wait_for_log(WAITING)
    worker.save(SHOP)
    worker.wait_for_log(STARTED)
    worker.signal()
    assert worker.ended() == 0


def test_code_whose_import_never_ends_is_replaced_with_the_next_save(dev: Dev, project: Path) -> None:
    (project / "shop.py").write_text("import time\nprint('importing')\ntime.sleep(600)", "utf-8")
    worker = dev()
    worker.wait_for_log("importing")
    worker.save(SHOP)
    worker.wait_for_log(STARTED)


@pytest.mark.parametrize(
    ("kind", "given"), [("wait_for", {"name": "go"}), ("sleep_in_a_thread", {"seconds": 600})]
)
def test_a_job_in_flight_is_given_back_with_its_attempt_and_runs_again_in_the_new_code(
    dev: Dev, conn: psycopg.Connection, project: Path, kind: str, given: dict[str, Any]
) -> None:
    worker = dev("--grace", "100ms")
    worker.wait_for_log(STARTED)
    job = enqueue(conn, kind, **given)
    reach(worker, conn, job, "running")
    worker.save(SHOP.replace("time.sleep(seconds)", "time.sleep(0.001)"))
    worker.wait_for_log(STARTED, times=2)
    (project / "go").touch()
    reach(worker, conn, job, "succeeded")
    assert state_and_attempt(conn, job)[1] == 1
    outcomes = conn.execute("select outcome::text from holdfast.ledger where job = %s order by run", [job])
    assert outcomes.fetchall() == [("released",), ("succeeded",)]


def test_a_job_that_ends_within_the_grace_runs_once(
    dev: Dev, conn: psycopg.Connection, project: Path
) -> None:
    worker = dev("--grace", "1m")
    worker.wait_for_log(STARTED)
    job = enqueue(conn, "wait_for", name="go")
    reach(worker, conn, job, "running")
    worker.save(f"{SHOP}\n")
    worker.wait_for_log("stopping: ")
    (project / "go").touch()
    worker.wait_for_log(STARTED, times=2)
    assert conn.execute("select count(*) from holdfast.ledger where job = %s", [job]).fetchone() == (1,)


def test_a_worker_whose_event_loop_is_blocked_is_killed_and_its_job_rescued(
    dev: Dev, conn: psycopg.Connection
) -> None:
    worker = dev("--grace", "100ms", "--log-level", "debug")
    worker.wait_for_log(STARTED)
    job = enqueue(conn, "block_the_loop", seconds=600)
    worker.wait_for_log("block_the_loop #")
    worker.save(SHOP.replace("time.sleep(seconds)", "time.sleep(0.001)"))
    worker.wait_for_log("does not stop: killed")
    reach(worker, conn, job, "succeeded")
    assert state_and_attempt(conn, job)[1] == 2


def test_many_saves_in_a_row_lead_to_one_reload(dev: Dev, project: Path) -> None:
    worker = dev()
    worker.wait_for_log(STARTED)
    for number in range(20):
        worker.save(f"x = {number}\n", f"part{number}.py")
    worker.wait_for_log(STARTED, times=2)
    worker.signal()
    assert worker.ended() == 0
    [line] = [line for line in worker.log.splitlines() if "changed: reloading" in line]
    assert "part0.py, part1.py, part10.py and 17 more" in line


def test_what_is_installed_hidden_or_made_by_tools_is_not_watched_but_other_directories_may_be(
    dev: Dev, project: Path, tmp_path: Path
) -> None:
    environment = project / "env"
    for directory in (".venv", "__pycache__", "node_modules/x", ".git", "env/lib", "package"):
        (project / directory).mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    (tmp_path / "library").mkdir()
    worker = dev("--watch", str(tmp_path / "library"))
    worker.wait_for_log(STARTED)
    for name in (
        ".venv/a.py",
        "__pycache__/a.py",
        "node_modules/x/a.py",
        ".git/a.py",
        "env/lib/a.py",
        "a.txt",
    ):
        worker.save("", name)
    (tmp_path / "library/a.py").touch()
    worker.wait_for_log(STARTED, times=2)
    worker.save("", "package/b.py")
    worker.wait_for_log(STARTED, times=3)
    (project / "package/b.py").unlink()
    worker.wait_for_log(STARTED, times=4)
    changes = [line for line in worker.log.splitlines() if "changed: reloading" in line]
    library = tmp_path / "library/a.py"
    assert [line.removeprefix("holdfast: ") for line in changes] == [
        f"{library} changed: reloading",
        "package/b.py changed: reloading",
        "package/b.py changed: reloading",
    ]


def test_it_says_where_the_jobs_are_and_what_there_is_but_no_password(
    project: Path, shared_server: object, dsn: str
) -> None:
    more = """
from holdfast import Flow

@app.schedule("0 7 * * mon-fri", tz="Europe/Oslo")
@app.job(queue="mail")
async def report() -> None: ...

@app.flow
async def fulfil(flow: Flow) -> None: ...
"""
    (project / "shop.py").write_text(SHOP + more, "utf-8")
    password = psycopg.conninfo.conninfo_to_dict(dsn)["password"]
    with dev_process(project, dsn, "dev", "-A", "shop:app") as worker:
        worker.wait_for_log(STARTED)
        assert f"watching 1 Python file in {project}; Ctrl-C stops" in worker.log
        assert "  jobs in    database " in worker.log
        assert "  queues     default, mail" in worker.log
        assert "  kinds      answer, wait_for, sleep_in_a_thread, block_the_loop, report, fulfil (flow)" in (
            worker.log
        )
        assert "  schedules  report: at 07:00 on Monday through Friday, Europe/Oslo" in worker.log
        assert str(password) not in worker.log
        assert "\x1b" not in worker.log
        worker.save(SHOP)
        worker.wait_for_log("holdfast: reloaded, 4 kinds, 1 queue, 0 schedules")


def test_an_empty_database_is_migrated(project: Path, copies: object, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("drop schema holdfast cascade")
    with dev_process(project, dsn, "dev", "-A", "shop:app") as worker:
        worker.wait_for_log(STARTED)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-A", "shops:app"], "there is no module 'shops' in"),
        (["-A", "shop:ap"], "shop has no attribute 'ap'; it has the app 'app'"),
        (["-A", "shop"], "'shop' does not name an app"),
        (["-A", "shop:app", "--dsn", "mysql://u:hidden@h/d"], "is not Postgres"),
        (["-A", "shop:app", "--watch", "nowhere"], "'nowhere' does not exist"),
        (["-A", "named:app", "--dsn", "host=/nowhere"], "named:app names its own"),
    ],
)
def test_a_wrong_command_ends_at_once(project: Path, arguments: list[str], told: str) -> None:
    (project / "named.py").write_text("from holdfast import App\napp = App('embedded')\n", "utf-8")
    with dev_process(project, None, "dev", *arguments) as worker:
        assert worker.ended() == 2
        assert told in worker.log
        assert "hidden" not in worker.log
        assert WAITING not in worker.log


def test_a_database_that_cannot_be_reached_ends_it_at_once(project: Path) -> None:
    with dev_process(project, "host=/nowhere dbname=x", "dev", "-A", "shop:app") as worker:
        assert worker.ended() == 1
        assert worker.log.count("holdfast: no connection to /nowhere/x") == 1, worker.log


def test_started_in_the_directory_around_the_project_it_says_where_to_go(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/shop.py").write_text(SHOP, "utf-8")
    with dev_process(tmp_path, None, "dev", "-A", "shop:app") as worker:
        assert worker.ended() == 2
        assert f"{tmp_path / 'shop'} is a directory that holds shop.py; go there first" in worker.log


def test_a_worker_process_that_dies_is_replaced(dev: Dev, conn: psycopg.Connection) -> None:
    worker = dev()
    worker.wait_for_log(STARTED)
    os.kill(worker.worker_pid, signal.SIGKILL)
    worker.wait_for_log("the worker process ended (SIGKILL): starting another in 1s")
    worker.wait_for_log(STARTED, times=2)


def test_a_worker_that_an_operator_stops_ends_it_and_is_not_replaced(
    dev: Dev, conn: psycopg.Connection, dsn: str
) -> None:
    worker = dev()
    worker.wait_for_log(STARTED)
    row = conn.execute("select id from holdfast.worker").fetchone()
    assert row is not None
    assert main(["workers", "stop", str(row[0]), "--yes", "--dsn", dsn]) == 0
    assert worker.ended() == 0, worker.log
    assert worker.log.count(STARTED) == 1
    assert conn.execute("select count(*) from holdfast.worker").fetchone() == (0,)


def test_the_first_ctrl_c_lets_jobs_end_and_the_second_gives_them_back(
    dev: Dev, conn: psycopg.Connection
) -> None:
    worker = dev("--grace", "10m")
    worker.wait_for_log(STARTED)
    job = enqueue(conn, "wait_for", name="never")
    reach(worker, conn, job, "running")
    worker.signal()
    worker.wait_for_log("stopping: waiting up to 10m for running jobs")
    worker.signal()
    assert worker.ended() == 0
    assert state_and_attempt(conn, job) == ("ready", 0)
    assert conn.execute("select count(*) from holdfast.worker").fetchone() == (0,)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_broken_code_is_waited_for_ends_it(
    dev: Dev, project: Path, number: signal.Signals
) -> None:
    (project / "shop.py").write_text("def (", "utf-8")
    worker = dev()
    worker.wait_for_log(WAITING)
    worker.signal(number)
    assert worker.ended() == 0


def test_killed_it_leaves_no_worker_behind_and_running_jobs_keep_their_attempts(
    dev: Dev, conn: psycopg.Connection
) -> None:
    worker = dev("--grace", "100ms")
    worker.wait_for_log(STARTED)
    pid = worker.worker_pid
    job = enqueue(conn, "wait_for", name="never")
    reach(worker, conn, job, "running")
    worker.signal(signal.SIGKILL)
    worker.ended()
    block_until(lambda: not is_alive(pid), "the worker has ended")
    assert state_and_attempt(conn, job) == ("ready", 0)


def server_in(project: Path) -> int | None:
    return Postmaster(Layout(project / ".holdfast")).pid


def test_without_a_database_it_runs_on_a_private_server_that_stays_over_a_reload_and_ends_with_it(
    project: Path,
) -> None:
    with dev_process(project, None, "dev", "-A", "shop:app") as worker:
        worker.wait_for_log(STARTED)
        directory = project / ".holdfast"
        assert f"  jobs in    the private Postgres in {directory}\n" in worker.log
        assert f"  elsewhere  export HOLDFAST_DSN=embedded:{directory}\n" in worker.log
        pid = server_in(project)
        worker.save(SHOP.replace("first", "other"))
        worker.wait_for_log(STARTED, times=2)
        assert server_in(project) == pid is not None
        done = subprocess.run(
            [sys.executable, "-m", "holdfast.cli", "enqueue", "answer", "--wait"],
            env={**os.environ, "HOLDFAST_DSN": f"embedded:{directory}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == '"other"\n', done.stderr
        worker.signal()
        assert worker.ended() == 0
        assert server_in(project) is None


@pytest.mark.parametrize("text", [SHOP, "def ("])
def test_killed_it_leaves_no_private_server_behind(project: Path, text: str) -> None:
    with dev_process(project, None, "dev", "-A", "shop:app") as worker:
        worker.wait_for_log(STARTED)
        assert server_in(project)
        if text != SHOP:
            worker.save(text)
            worker.wait_for_log(WAITING)
        worker.signal(signal.SIGKILL)
        worker.ended()
        block_until(lambda: server_in(project) is None, "the server has ended")


IN_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "holdfast.cli", "dev", "-A", "shop:app"])
"""


def test_in_a_terminal_its_lines_are_coloured_and_a_handler_may_ask_the_person(
    project: Path, dsn: str, conn: psycopg.Connection
) -> None:
    (project / "shop.py").write_text(f"{SHOP}\n\n@app.job\ndef ask() -> str:\n    return input('name? ')\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL],
        cwd=project,
        env={**os.environ, "HOLDFAST_DSN": dsn},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = bytearray()

    def is_shown(text: bytes) -> bool:
        if select.select([ours], [], [], 0)[0]:
            shown.extend(os.read(ours, 4096))
        return text in shown

    try:
        block_until(lambda: is_shown(STARTED.encode()), shown.decode)
        job = enqueue(conn, "ask")
        block_until(lambda: is_shown(b"name? "), shown.decode)
        os.write(ours, b"Ada\n")
        block_until(lambda: is_shown(f"\x1b[32m✓ ask #{job} succeeded\x1b[0m".encode()), shown.decode)
        assert result(conn, job) == "Ada"
        os.write(ours, b"\x03")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_worker_with_reload_is_the_same_worker_with_its_own_log_and_options(
    dev: Dev, conn: psycopg.Connection
) -> None:
    worker = dev("--reload", "--log-format", "json", "-q", "default=3", command="worker")
    worker.wait_for_log('"event": "worker started"')
    assert '"slots": 3' in worker.log
    worker.save("def (")
    worker.wait_for_log(WAITING)
    worker.save(SHOP.replace("first", "other"))
    worker.wait_for_log('"event": "worker started"', times=2)
    job = enqueue(conn, "answer")
    reach(worker, conn, job, "succeeded")
    assert result(conn, job) == "other"
    worker.signal()
    assert worker.ended() == 0


@pytest.mark.parametrize("option", [("--once",), ("--processes", "2")])
def test_reload_is_for_one_process_that_runs_on(dev: Dev, option: tuple[str, ...]) -> None:
    worker = dev("--reload", *option, command="worker")
    assert worker.ended() == 2
    assert "--reload is for one process that runs on" in worker.log
