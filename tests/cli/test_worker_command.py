"""`holdfast worker` as a process: `--once`, queues, log formats, signals, several processes, usage errors."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from cli.processes import wait_until
from cli.worker_processes import APP, Start, enqueue, reach, state_and_attempt
from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


MALFORMED = """
def _log() -> None:
    logging.getLogger("shop").warning("%d items", "x")
    logging.getLogger("shop").warning("logged on")

@app.job(retry=Retry(max_attempts=1))
async def log_badly() -> None:
    _log()

@app.job(retry=Retry(max_attempts=1), isolate="process")
def log_badly_in_a_process() -> None:
    _log()
"""


@pytest.mark.requirement("S2.18")
def test_once_runs_what_is_there_and_what_follows_from_it_and_leaves_the_rest(
    start: Start, conn: psycopg.Connection
) -> None:
    enqueue(conn, "chain", left=5)
    enqueue(conn, "send", "mail", number=1)
    enqueue(conn, "unknown")
    conn.execute("select holdfast.enqueue('send', '{\"number\": 2}', queue => 'mail', delay => '1 hour')")
    worker = start("--once")
    assert worker.ended() == 0, worker.log
    states = conn.execute("select kind, state, count(*) from holdfast.jobs group by 1, 2 order by 1, 2")
    assert states.fetchall() == [
        ("chain", "succeeded", 6),
        ("send", "scheduled", 1),
        ("send", "succeeded", 1),
        ("unknown", "ready", 1),
    ], worker.log
    assert conn.execute("select count(*) from holdfast.worker").fetchone() == (0,)


def test_only_the_named_queues_are_served(start: Start, conn: psycopg.Connection) -> None:
    mail, other = enqueue(conn, "send", "mail", number=1), enqueue(conn, "chain", left=0)
    assert start("-q", "mail=2", "--once").ended() == 0
    assert (state_and_attempt(conn, mail), state_and_attempt(conn, other)) == (("succeeded", 1), ("ready", 0))


def test_json_lines_carry_facts_and_the_job_in_which_they_were_written(
    start: Start, conn: psycopg.Connection
) -> None:
    job = enqueue(conn, "send", "mail", number=7)
    worker = start("--once", "--log-format", "json")
    assert worker.ended() == 0
    lines = [json.loads(line) for line in worker.log.splitlines()]
    [own] = [line for line in lines if line["logger"] == "shop"]
    assert (own["message"], own["job"], own["attempt"]) == ("sending 7", job, 1)
    [ended] = [line for line in lines if line.get("event") == "attempt succeeded"]
    assert (ended["job"], ended["kind"], ended["queue"]) == (job, "send", "mail")


def test_text_lines_carry_the_job_too(start: Start, conn: psycopg.Connection, folder: Path) -> None:
    (folder / "shop.py").write_text(APP + MALFORMED, "utf-8")
    job = enqueue(conn, "send", "mail", number=7)
    isolated = enqueue(conn, "log_badly_in_a_process")
    worker = start("--once")
    assert worker.ended() == 0
    assert f"INFO shop sending 7: job={job} run=" in worker.log
    assert f"WARNING shop logged on: job={isolated} run=" in worker.log


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_malformed_log_call_is_reported_and_fails_no_job(
    start: Start, conn: psycopg.Connection, folder: Path, log_format: str
) -> None:
    (folder / "shop.py").write_text(APP + MALFORMED, "utf-8")
    jobs = [enqueue(conn, kind) for kind in ("log_badly", "log_badly_in_a_process")]
    worker = start("--once", "--log-format", log_format)
    assert worker.ended() == 0
    assert {state_and_attempt(conn, job) for job in jobs} == {("succeeded", 1)}, worker.log
    assert worker.log.count("--- Logging error ---") == worker.log.count("logged on") == len(jobs)


def test_an_app_that_sets_up_logging_keeps_it_unless_a_format_is_asked_for(
    start: Start, conn: psycopg.Connection, folder: Path
) -> None:
    own = "import logging\nlogging.basicConfig(level='INFO', format='mine: %(message)s')\n"
    (folder / "shop.py").write_text(own + APP, "utf-8")
    kept = start("--once")
    assert kept.ended() == 0
    assert "mine: worker started" in kept.log
    asked = start("--once", "--log-level", "warning")
    assert (asked.ended(), asked.log) == (0, "")


@pytest.mark.requirement("S2.45")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_running_jobs_end_and_takes_no_more(
    start: Start, conn: psycopg.Connection, folder: Path, number: signal.Signals
) -> None:
    running = enqueue(conn, "wait_for", name="go")
    worker = start()
    reach(worker, conn, running, "running")
    worker.signal(number)
    worker.wait_for_log("stopping: ")
    late = enqueue(conn, "chain", left=0)
    (folder / "go").touch()
    assert worker.ended() == 0
    assert (state_and_attempt(conn, running), state_and_attempt(conn, late)) == (
        ("succeeded", 1),
        ("ready", 0),
    )
    assert conn.execute("select count(*) from holdfast.worker").fetchone() == (0,)


def test_what_outlasts_the_grace_is_given_back_with_its_attempt(
    start: Start, conn: psycopg.Connection
) -> None:
    job = enqueue(conn, "wait_for", name="never")
    worker = start("--grace", "100ms")
    reach(worker, conn, job, "running")
    worker.signal()
    assert worker.ended() == 0
    assert state_and_attempt(conn, job) == ("ready", 0)
    assert "released=1" in worker.log


@pytest.mark.requirement("S4.20")
@pytest.mark.parametrize("kind", ["wait_for", "sleep_in_a_thread"])
def test_the_second_signal_gives_running_jobs_back_and_ends_even_beside_a_thread_that_runs_on(
    start: Start, conn: psycopg.Connection, kind: str
) -> None:
    job = enqueue(conn, kind, **({"name": "never"} if kind == "wait_for" else {"seconds": 600}))
    worker = start("--grace", "10m")
    reach(worker, conn, job, "running")
    worker.signal()
    worker.wait_for_log("stopping: ")
    worker.signal()
    assert worker.ended() == 0
    assert state_and_attempt(conn, job) == ("ready", 0)


def test_the_third_signal_ends_a_process_whose_event_loop_is_blocked(
    start: Start, conn: psycopg.Connection
) -> None:
    job = enqueue(conn, "block_the_loop", seconds=600)
    worker = start("--log-level", "debug")
    reach(worker, conn, job, "running")
    worker.wait_for_log("attempt started")
    while worker.process.poll() is None:
        worker.signal()
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(0.2)
    assert worker.ended() == 1
    assert state_and_attempt(conn, job) == ("running", 1)


@pytest.mark.machine  # starts several interpreters
def test_a_killed_process_is_replaced_and_a_signal_ends_them_all(
    start: Start, conn: psycopg.Connection, folder: Path
) -> None:
    worker = start("--processes", "2", "--lease", "1s")
    worker.wait_for_log("worker started", times=2)
    jobs = [enqueue(conn, "wait_for", name="go") for _ in range(4)]
    wait_until(conn, "select count(*) = 4 from holdfast.lease")
    [killed] = conn.execute(
        "select w.pid, array_agg(l.job) from holdfast.lease l join holdfast.worker w on w.id = l.worker"
        " group by w.pid order by w.pid limit 1"
    ).fetchall()
    os.kill(killed[0], signal.SIGKILL)
    worker.wait_for_log("worker started", times=3)
    assert worker.log.count("worker process died, starting another") == 1
    assert f"pid={killed[0]} by=SIGKILL" in worker.log
    (folder / "go").touch()
    for job in jobs:
        reach(worker, conn, job, "succeeded")
        assert state_and_attempt(conn, job)[1] == (2 if job in killed[1] else 1)
    assert len(worker.children()) == 2
    worker.signal()
    assert worker.ended() == 0
    assert worker.log.count("worker stopped") == 2


@pytest.mark.machine  # starts several interpreters
def test_a_service_manager_that_signals_every_process_does_not_hurry_them(
    start: Start, conn: psycopg.Connection, folder: Path
) -> None:
    worker = start("--processes", "2")
    worker.wait_for_log("worker started", times=2)
    job = enqueue(conn, "wait_for", name="go")
    reach(worker, conn, job, "running")
    for pid in (*worker.children(), *worker.children(), worker.process.pid):
        os.kill(pid, signal.SIGTERM)
    worker.wait_for_log("stopping: ", times=2)
    (folder / "go").touch()
    assert worker.ended() == 0
    assert state_and_attempt(conn, job) == ("succeeded", 1)


@pytest.mark.machine  # starts several interpreters
def test_the_second_signal_hurries_every_process(start: Start, conn: psycopg.Connection) -> None:
    worker = start("--processes", "2")
    worker.wait_for_log("worker started", times=2)
    job = enqueue(conn, "wait_for", name="never")
    reach(worker, conn, job, "running")
    worker.signal(signal.SIGINT)
    worker.wait_for_log("stopping: ", times=2)
    worker.signal(signal.SIGINT)
    assert worker.ended() == 0
    assert state_and_attempt(conn, job) == ("ready", 0)


@pytest.mark.machine  # starts several interpreters
def test_a_signal_while_the_first_process_starts_ends_it_and_starts_no_other(
    start: Start, conn: psycopg.Connection, folder: Path
) -> None:
    wait = (
        "import time\nfrom pathlib import Path\nPath('importing').touch()\nwhile not Path('go').exists():\n"
    )
    (folder / "shop.py").write_text(f"{wait}    time.sleep(0.01)\n{APP}", "utf-8")
    worker = start("--processes", "3")
    worker.wait_until((folder / "importing").exists, "import")
    worker.signal()
    (folder / "go").touch()
    assert worker.ended() == 0
    one = worker.log.count("worker started") + worker.log.count("stopped before it had started")
    assert one == 1, worker.log
    assert "was lost" not in worker.log
    assert conn.execute("select count(*) from holdfast.worker").fetchone() == (0,)


@pytest.mark.machine  # starts several interpreters
def test_no_process_outlives_a_killed_parent(start: Start, conn: psycopg.Connection) -> None:
    worker = start("--processes", "2", "--grace", "100ms")
    worker.wait_for_log("worker started", times=2)
    job = enqueue(conn, "wait_for", name="never")
    reach(worker, conn, job, "running")
    worker.process.kill()
    wait_until(conn, "select count(*) = 0 from holdfast.worker")
    assert state_and_attempt(conn, job) == ("ready", 0)


def test_what_no_process_can_do_is_told_once(start: Start, folder: Path) -> None:
    (folder / "shop.py").write_text("import not_there\n", "utf-8")
    worker = start("--processes", "3")
    assert worker.ended() == 1
    told = f"{folder}/shop.py:1: import not_there: ModuleNotFoundError: No module named 'not_there'"
    assert worker.log.splitlines() == [f"holdfast: shop cannot be imported: {told}"]


def test_an_unreachable_database_is_one_line_without_the_password(start: Start) -> None:
    worker = start("--dsn", "postgresql://me:geheim@127.0.0.1:1/shop")
    assert worker.ended() == 1
    [line] = worker.log.splitlines()
    assert line.startswith("holdfast: cannot connect to 127.0.0.1:1/shop")
    assert "geheim" not in line


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In the folder, within this process, leaving no modules behind."""
    before = set(sys.modules)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HOLDFAST_DSN", "host=127.0.0.1 port=1")
    yield folder
    for name in set(sys.modules) - before:
        if (file := getattr(sys.modules[name], "__file__", None)) and Path(file).is_relative_to(folder):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("shop", "write MODULE:ATTRIBUTE, such as shop.jobs:app"),
        (":app", "write MODULE:ATTRIBUTE"),
        ("shop/jobs.py:app", "write MODULE:ATTRIBUTE"),
        ("shops:app", "there is no module 'shops' in"),
        ("shop.jobs:app", "there is no module 'shop.jobs' in"),
        ("shop:ap", "shop has no attribute 'ap'; it has the app 'app'"),
        ("shop:send", "shop:send is of type Job, not an App; it has the app 'app'"),
    ],
)
def test_a_reference_that_names_no_app_is_a_usage_error(
    here: Path, reference: str, expected: str, capsys: Captured
) -> None:
    assert main(["worker", "-A", reference]) == 2
    err = capsys.readouterr().err
    assert "Invalid value for '-A' / '--app'" in err
    assert expected in err


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import inner", "inner.py:2: import not_there: ModuleNotFoundError: No module named 'not_there'"),
        ("\nx = 1 / 0", "broken.py:2: x = 1 / 0: ZeroDivisionError: division by zero"),
        ("def (", "broken.py:1: invalid syntax"),
        ("import sys\nsys.exit(7)", "broken.py:2: sys.exit(7): SystemExit: 7"),
        ("import sys\nsys.exit()", "broken.py:2: sys.exit(): SystemExit"),
    ],
)
def test_an_error_inside_the_module_is_told_with_its_own_line(
    here: Path, source: str, expected: str, capsys: Captured
) -> None:
    (here / "inner.py").write_text("\nimport not_there\n", "utf-8")
    (here / "broken.py").write_text(source, "utf-8")
    assert main(["worker", "-A", "broken:app"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("holdfast: broken cannot be imported: ")
    assert err.endswith(f"{expected}\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ("mail=x", "'mail=x': give a whole number of jobs at once, such as mail=20"),
        ("mail=", "'mail=': give a whole number"),
        ("mail=-1", "give a whole number"),
        ("mail=0", 'queue "mail" has 0 slots: give 1 to 100000'),
        ("mail,mail=2", "queue 'mail' is named twice"),
        ("mail,,default", "queue '' must be text"),
    ],
)
def test_a_wrong_list_of_queues_is_a_usage_error(queues: str, expected: str, capsys: Captured) -> None:
    assert main(["worker", "-A", "shop:app", "-q", queues]) == 2
    err = capsys.readouterr().err
    assert "Invalid value for '-q' / '--queues'" in err
    assert expected in err


def test_slots_without_a_number_are_a_usage_error(capsys: Captured) -> None:
    assert main(["worker", "-A", "shop:app", "--slots", "pdf"]) == 2
    err = capsys.readouterr().err
    assert "Invalid value for '--slots'" in err
    assert "'pdf': give a whole number of jobs at once, such as mail=20" in err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--grace", "30"), ("--lease", "500ms"), ("--processes", "0"), ("--log-level", "loud")],
)
def test_a_wrong_option_is_a_usage_error(option: str, value: str, capsys: Captured) -> None:
    assert main(["worker", "-A", "shop:app", option, value]) == 2
    assert f"Invalid value for '{option}'" in capsys.readouterr().err


def test_a_dsn_beside_an_app_that_names_its_own_is_a_usage_error(here: Path, capsys: Captured) -> None:
    (here / "own.py").write_text('from holdfast import App\napp = App("embedded")\n', "utf-8")
    assert main(["worker", "-A", "own:app", "--dsn", "host=nowhere"]) == 2
    assert "own:app names its own" in capsys.readouterr().err


def test_an_app_without_jobs_is_told_so(here: Path, capsys: Captured) -> None:
    (here / "empty.py").write_text("from holdfast import App\napp = App()\n", "utf-8")
    assert main(["worker", "-A", "empty:app"]) == 1
    assert "this app has no jobs" in capsys.readouterr().err
