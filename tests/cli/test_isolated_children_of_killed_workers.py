"""Processes that isolated handlers have started end with a worker that is killed."""

import os
import signal
from pathlib import Path

import psycopg
import pytest

from cli.worker_processes import APP, Start, enqueue
from support.waiting import block_until
from worker.handler_runs import is_alive

pytestmark = pytest.mark.machine  # each starts several interpreters

ISOLATED = """
import os, subprocess

@app.job(isolate="process")
def start_another(name: str) -> None:
    started = subprocess.Popen(["sleep", "600"])
    Path(f"{name}.new").write_text(f"{os.getpid()} {started.pid}")
    Path(f"{name}.new").rename(name)
    time.sleep(600)
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_worker_takes_what_isolated_handlers_have_started_with_it(
    start: Start, conn: psycopg.Connection, folder: Path, processes: int
) -> None:
    (folder / "shop.py").write_text(APP + ISOLATED, "utf-8")
    worker = start("--processes", str(processes), "--children", "6")
    worker.wait_for_log("worker started", times=processes)
    names = [f"family-{number}" for number in range(6)]
    for name in names:
        enqueue(conn, "start_another", name=name)
    worker.wait_until(lambda: all((folder / name).exists() for name in names), "families")
    family = [int(pid) for name in names for pid in (folder / name).read_text("utf-8").split()]
    assert all(map(is_alive, family))
    try:
        for (pid,) in conn.execute("select pid from holdfast.worker").fetchall():
            os.kill(pid, signal.SIGKILL)
        if processes == 1:
            worker.process.wait(60)
        else:
            worker.wait_for_log("worker started", times=2 * processes)
        wait_until_dead(family)
    finally:
        for pid in filter(is_alive, family):
            os.kill(pid, signal.SIGKILL)


def wait_until_dead(family: list[int]) -> None:
    block_until(lambda: not any(map(is_alive, family)), "all of the family are dead", within=5)
