"""The log of `holdfast worker`: no line is lost or out of order, and no job waits for its reader."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli.worker_processes import APP, Start, enqueue
from support.waiting import block_until

pytestmark = pytest.mark.machine  # each starts several interpreters

TALKING = """
import os
import signal

@app.job
async def talk() -> None:
    logging.getLogger("shop").info("one")
    await asyncio.sleep(0)
    logging.getLogger("shop").info("two")

@app.job
def talk_in_a_thread() -> None:
    logging.getLogger("shop").info("one")
    logging.getLogger("shop").info("two")

@app.job(isolate="process")
def talk_in_a_process() -> None:
    logging.getLogger("shop").info("one")
    logging.getLogger("shop").info("two")

@app.job
async def talk_in_a_fork() -> None:
    logging.getLogger("shop").info("one")
    if not (pid := os.fork()):
        logging.getLogger("shop").info("in the copy")
        os._exit(0)
    os.waitpid(pid, 0)
    logging.getLogger("shop").info("two")

@app.job
async def end_by_signals() -> None:
    logging.getLogger("shop").info("last words")
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)

@app.job
async def shout(size: int) -> None:
    logging.getLogger("shop").info("x" * size)
"""


@pytest.fixture(autouse=True)
def talking(folder: Path) -> None:
    (folder / "shop.py").write_text(APP + TALKING, "utf-8")


def enqueue_many(conn: psycopg.Connection, number: int, kind: str, **args: object) -> None:
    conn.execute(
        "select holdfast.enqueue(%s, %s::jsonb) from generate_series(1, %s)", [kind, json.dumps(args), number]
    )


def succeeded(conn: psycopg.Connection) -> set[int]:
    return {job for (job,) in conn.execute("select job from holdfast.ledger where outcome = 'succeeded'")}


def jobs_told(log: str) -> list[int]:
    return [int(job) for job in re.findall(r"attempt succeeded: job=(\d+) ", log)]


def test_a_worker_that_ends_by_itself_has_told_every_success(start: Start, conn: psycopg.Connection) -> None:
    enqueue_many(conn, 3_000, "chain", left=0)
    worker = start("--once")
    assert worker.ended() == 0
    told = jobs_told(worker.log)
    assert len(told) == 3_000
    assert set(told) == succeeded(conn)
    assert " worker stopped: " in worker.log.splitlines()[-1]


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_that_is_told_to_stop_has_told_every_success(
    start: Start, conn: psycopg.Connection, processes: str
) -> None:
    worker = start("--processes", processes)
    worker.wait_for_log("worker started", times=int(processes))
    enqueue_many(conn, 5_000, "chain", left=0)
    worker.wait_for_log("attempt succeeded")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    told = jobs_told(worker.log)
    assert len(told) == len(set(told)) > 0
    assert set(told) == succeeded(conn)
    assert worker.log.count("worker stopped: ") == int(processes)


def test_a_third_signal_leaves_no_line_behind(start: Start, conn: psycopg.Connection) -> None:
    enqueue(conn, "end_by_signals")
    worker = start()
    assert worker.ended() == 1
    assert "INFO shop last words: job=" in worker.log.splitlines()[-1]


def test_an_error_that_ends_the_process_comes_behind_every_line(folder: Path) -> None:
    script = """
import logging
from holdfast.cli.log_setup import batched_logging, set_up_logging

set_up_logging("text", "info")
with batched_logging():
    for number in range(2_000):
        logging.getLogger("shop").info("line %d.", number)
    raise RuntimeError("the end")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.rpartition(" INFO shop ")[2] for line in lines[:2_000]] == [
        f"line {number}." for number in range(2_000)
    ]
    assert lines[2_000].startswith("Traceback")
    assert lines[-1] == "RuntimeError: the end"


def test_what_is_logged_at_the_end_of_the_interpreter_is_written(folder: Path) -> None:
    script = """
import atexit, logging, sys
from holdfast.cli.log_setup import batched_logging, set_up_logging

set_up_logging("text", "info")
log = logging.getLogger("shop")
batching = batched_logging()
batching.__enter__()
atexit.register(log.info, "at exit")
log.info("before")
sys.exit(3)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert [line.rpartition(" ")[2] for line in done.stderr.splitlines()] == ["before", "exit"]


@pytest.mark.parametrize("kind", ["talk", "talk_in_a_thread", "talk_in_a_process", "talk_in_a_fork"])
def test_the_lines_of_a_job_come_in_the_order_in_which_they_were_logged(
    start: Start, conn: psycopg.Connection, kind: str
) -> None:
    enqueue_many(conn, 20, kind)
    worker = start("--once", "--log-level", "debug", "--log-format", "json")
    assert worker.ended() == 0
    lines = [json.loads(line) for line in worker.log.splitlines() if "event loop blocked" not in line]
    expected = ["attempt started", "one", "two", "attempt succeeded"]
    if kind == "talk_in_a_fork":
        expected.insert(2, "in the copy")
    for job in succeeded(conn):
        assert [line.get("event") or line["message"] for line in lines if line.get("job") == job] == expected
    assert len(succeeded(conn)) == 20


class Unread:
    """A worker whose stderr is a pipe that the test reads, or does not."""

    def __init__(self, folder: Path, dsn: str, *arguments: str) -> None:
        self.reading, writing = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", "worker", "-A", "shop:app", *arguments],
            cwd=folder,
            env={**os.environ, "HOLDFAST_DSN": dsn},
            stderr=writing,
        )
        os.close(writing)

    def rest(self) -> str:
        """Everything until all its processes have ended."""
        with os.fdopen(self.reading, encoding="utf-8", closefd=False) as stream:
            return stream.read()


@pytest.fixture
def unread(folder: Path, dsn: str, request: pytest.FixtureRequest) -> Iterator[Unread]:
    worker = Unread(folder, dsn, *getattr(request, "param", ()))
    try:
        yield worker
    finally:
        worker.process.kill()
        worker.process.wait()
        os.close(worker.reading)


def test_jobs_go_on_while_nobody_reads_the_log_and_the_worker_stops(
    unread: Unread, conn: psycopg.Connection
) -> None:
    enqueue_many(conn, 150, "shout", size=100_000)
    block_until(lambda: len(succeeded(conn)) == 150, "all jobs have succeeded")
    unread.process.send_signal(signal.SIGTERM)
    assert unread.process.wait(60) == 0
    assert conn.execute("select count(*) from holdfast.worker").fetchone() == (0,)


def test_a_reader_that_comes_back_learns_how_many_lines_are_missing(
    unread: Unread, conn: psycopg.Connection
) -> None:
    enqueue_many(conn, 150, "shout", size=100_000)
    block_until(lambda: len(succeeded(conn)) == 150, "all jobs have succeeded")
    unread.process.send_signal(signal.SIGTERM)
    lines = unread.rest().splitlines()
    assert unread.process.wait(60) == 0
    told = [
        re.search(r'WARNING holdfast.log log lines are missing here: lines=(\d+) reason="they were', line)
        for line in lines
    ]
    missing = sum(int(found[1]) for found in told if found)
    read = sum(" INFO shop xxx" in line or "attempt succeeded: " in line for line in lines)
    assert missing > 0
    assert 300 <= missing + read < 330  # those of the worker itself may be among the missing


def test_a_reader_that_is_gone_stops_no_job(unread: Unread, conn: psycopg.Connection) -> None:
    unread_before = os.read(unread.reading, 1)
    assert unread_before
    os.dup2(os.open(os.devnull, os.O_RDONLY), unread.reading)  # closes the only reading end
    enqueue_many(conn, 200, "shout", size=1_000)
    block_until(lambda: len(succeeded(conn)) == 200, "all jobs have succeeded")
    unread.process.send_signal(signal.SIGTERM)
    assert unread.process.wait(60) == 0


def test_a_full_disk_stops_no_job(folder: Path, dsn: str, conn: psycopg.Connection) -> None:
    enqueue_many(conn, 200, "shout", size=1_000)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast.cli", "worker", "-A", "shop:app", "--once"],
            cwd=folder,
            env={**os.environ, "HOLDFAST_DSN": dsn},
            stderr=full,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0
    assert len(succeeded(conn)) == 200


@pytest.mark.parametrize("unread", [("--processes", "2", "--once", "--log-format", "json")], indirect=True)
def test_lines_of_several_processes_are_whole(unread: Unread, conn: psycopg.Connection) -> None:
    enqueue_many(conn, 2_000, "shout", size=300)
    lines = [json.loads(line) for line in unread.rest().splitlines()]
    assert unread.process.wait(60) == 0
    told = [line["job"] for line in lines if line.get("event") == "attempt succeeded"]
    assert len(told) == 2_000
    assert set(told) == succeeded(conn)
