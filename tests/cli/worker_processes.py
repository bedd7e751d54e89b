"""`holdfast worker` as a real process, in a folder with an app whose jobs wait for files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from support.logs import whole_lines
from support.waiting import block_until

APP = """
import asyncio
import logging
import time
from pathlib import Path

from holdfast import App, Retry

app = App()


@app.job(queue="mail")
async def send(number: int) -> str:
    logging.getLogger("shop").info("sending %d", number)
    return f"sent {number}"


@app.job
async def wait_for(name: str) -> None:
    while not Path(name).exists():
        await asyncio.sleep(0.01)


@app.job
def sleep_in_a_thread(seconds: float) -> None:
    time.sleep(seconds)


@app.job
async def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)


@app.job(retry=Retry(max_attempts=3, backoff="10ms"))
async def chain(left: int) -> None:
    if left:
        await chain.enqueue(left - 1)
"""


class WorkerProcess:
    def __init__(self, folder: Path, dsn: str, *arguments: str) -> None:
        self.folder = folder
        self._log = folder / f"log-{time.monotonic_ns()}"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli", "worker", *arguments],
                cwd=folder,
                env={**os.environ, "HOLDFAST_DSN": dsn},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return whole_lines(self._log)

    def wait_for_log(self, text: str, *, times: int = 1) -> None:
        self.wait_until(lambda: self.log.count(text) >= times, f"{times} times {text!r}")

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        def is_so_or_ended() -> bool:
            return is_so() or self.process.poll() is not None

        block_until(is_so_or_ended, lambda: f"{what}:\n{self.log}")
        assert is_so(), f"ended before {what}:\n{self.log}"

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        return self.process.wait(60)

    def children(self) -> list[int]:
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in listed.stdout.split()]


@contextmanager
def worker_process(folder: Path, dsn: str, *arguments: str) -> Iterator[WorkerProcess]:
    """A process that does not outlive the block, whatever the test does with it."""
    worker = WorkerProcess(folder, dsn, *arguments)
    try:
        yield worker
    finally:
        worker.process.kill()
        worker.process.wait()


Start = Callable[..., WorkerProcess]


def enqueue(conn: psycopg.Connection, kind: str, queue: str = "default", **args: object) -> int:
    """By the SQL function, as another program would."""
    row = conn.execute(
        "select holdfast.enqueue(%s, %s::jsonb, queue => %s)", [kind, json.dumps(args), queue]
    ).fetchone()
    assert row
    return int(row[0])


def reach(worker: WorkerProcess, conn: psycopg.Connection, job: int, state: str) -> None:
    worker.wait_until(lambda: state_and_attempt(conn, job)[0] == state, f"{state} job")


def state_and_attempt(conn: psycopg.Connection, job: int) -> tuple[str, int]:
    row = conn.execute("select state, attempt from holdfast.jobs where id = %s", [job]).fetchone()
    assert row
    return row[0], row[1]
