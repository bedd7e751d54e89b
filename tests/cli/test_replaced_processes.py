"""`--processes N` keeps N processes running until the operator stops them."""

import os
import signal
from pathlib import Path

import psycopg
import pytest

from cli.worker_processes import APP, Start, WorkerProcess, enqueue, reach, state_and_attempt

pytestmark = pytest.mark.machine  # each starts several interpreters

REPLACED = "starting another"

# A process waits in its import until it is let in.
WAITING = """
import os, time
from pathlib import Path

Path(f"importing-{time.monotonic_ns():020}-{os.getpid()}").touch()
while not (Path("all-in").exists() or Path(f"in-{os.getpid()}").exists()):
    time.sleep(0.01)
"""

LEAVING = """
@app.job(retry=Retry(backoff="10ms"))
def leave_once(name: str, code: int) -> None:
    if not Path(name).exists():
        Path(name).touch()
        os._exit(code)
"""


def importing(folder: Path) -> list[int]:
    """The processes that have begun to import the app, in this order."""
    return [int(path.name.rpartition("-")[2]) for path in sorted(folder.glob("importing-*"))]


def begun(worker: WorkerProcess, count: int) -> int:
    """The process that is the `count`th to begin."""
    worker.wait_until(lambda: len(importing(worker.folder)) >= count, f"process {count}")
    return importing(worker.folder)[count - 1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("killed", [1, 2])
def test_a_process_that_is_killed_before_it_is_up_is_replaced(
    start: Start, folder: Path, killed: int, number: signal.Signals
) -> None:
    (folder / "shop.py").write_text(WAITING + APP, "utf-8")
    worker = start("--processes", "2")
    if killed > 1:
        (folder / f"in-{begun(worker, 1)}").touch()
    os.kill(pid := begun(worker, killed), number)
    begun(worker, killed + 1)
    (folder / "all-in").touch()
    worker.wait_for_log("worker started", times=2)
    [line] = [line for line in worker.log.splitlines() if REPLACED in line]
    assert f"pid={pid} " in line
    assert len(worker.children()) == 2
    worker.signal()
    assert worker.ended() == 0


def test_a_process_that_ends_with_0_before_it_is_up_is_replaced(start: Start, folder: Path) -> None:
    ends_once = "import os\nfrom pathlib import Path\nif not Path('ended').exists():\n"
    ends_once += "    Path('ended').touch()\n    os._exit(0)\n"
    (folder / "shop.py").write_text(ends_once + APP, "utf-8")
    worker = start("--processes", "2")
    worker.wait_for_log("worker started", times=2)
    assert worker.log.count(REPLACED) == 1
    worker.signal()
    assert worker.ended() == 0


@pytest.mark.parametrize("code", [0, 7])
def test_a_process_that_a_handler_ends_is_replaced_whatever_its_exit_code(
    start: Start, conn: psycopg.Connection, folder: Path, code: int
) -> None:
    (folder / "shop.py").write_text(f"import os\n{APP}{LEAVING}", "utf-8")
    worker = start("--processes", "2", "--lease", "1s")
    worker.wait_for_log("worker started", times=2)
    job = enqueue(conn, "leave_once", name="left", code=code)
    worker.wait_for_log("worker started", times=3)
    reach(worker, conn, job, "succeeded")
    [line] = [line for line in worker.log.splitlines() if REPLACED in line]
    assert f'by="exit code {code}"' in line
    assert len(worker.children()) == 2
    worker.signal()
    assert worker.ended() == 0


def test_a_process_that_gets_a_signal_of_its_own_drains_and_is_replaced(
    start: Start, conn: psycopg.Connection, folder: Path
) -> None:
    worker = start("--processes", "2")
    worker.wait_for_log("worker started", times=2)
    job = enqueue(conn, "wait_for", name="go")
    reach(worker, conn, job, "running")
    told = conn.execute(
        "select w.pid from holdfast.lease l join holdfast.worker w on w.id = l.worker where l.job = %s", [job]
    ).fetchone()
    assert told
    os.kill(told[0], signal.SIGTERM)
    worker.wait_for_log("stopping: ")
    (folder / "go").touch()
    worker.wait_for_log("worker started", times=3)
    assert state_and_attempt(conn, job) == ("succeeded", 1)
    [line] = [line for line in worker.log.splitlines() if REPLACED in line]
    assert f"pid={told[0]} " in line
    assert len(worker.children()) == 2
    worker.signal()
    assert worker.ended() == 0


def test_a_process_that_fails_to_start_beside_one_that_is_up_is_tried_again(
    start: Start, folder: Path
) -> None:
    broken = 'assert not Path("broken").exists(), "no room"\n'
    (folder / "shop.py").write_text(WAITING + broken + APP, "utf-8")
    worker = start("--processes", "2")
    (folder / f"in-{begun(worker, 1)}").touch()
    pid = begun(worker, 2)
    (folder / "broken").touch()
    (folder / f"in-{pid}").touch()
    worker.wait_for_log(REPLACED)
    (folder / "broken").unlink()
    (folder / "all-in").touch()
    worker.wait_for_log("worker started", times=2)
    assert "AssertionError: no room" in worker.log
    worker.signal()
    assert worker.ended() == 0


def test_a_process_that_keeps_dying_is_started_ever_more_slowly(start: Start, folder: Path) -> None:
    (folder / "shop.py").write_text("import os\nos.kill(os.getpid(), 9)\n", "utf-8")
    worker = start("--processes", "2")
    worker.wait_for_log(REPLACED, times=3)
    pauses = [line.rpartition("after=")[2] for line in worker.log.splitlines() if REPLACED in line]
    assert pauses[:3] == ["500ms", "1s", "2s"]
    worker.signal()
    assert worker.ended() == 0


def test_processes_that_find_nothing_to_do_are_not_replaced_if_that_is_wished(
    start: Start, conn: psycopg.Connection
) -> None:
    jobs = [enqueue(conn, "chain", left=3) for _ in range(5)]
    worker = start("--processes", "2", "--once")
    assert worker.ended() == 0
    assert {state_and_attempt(conn, job) for job in jobs} == {("succeeded", 1)}
    assert worker.log.count("worker stopped") == 2
    assert REPLACED not in worker.log
