"""A handler that forks and comes back in the copy: the copy ends there, and is never a second worker."""

from pathlib import Path

import psycopg
import pytest

from cli.worker_processes import APP, Start, enqueue
from worker.handler_runs import is_alive

pytestmark = pytest.mark.machine  # each starts several interpreters

FORKING = """
import os

def fork(name, in_copy=False):
    pid = os.fork()
    if pid:
        Path(f"{name}.new").write_text(str(pid))
        Path(f"{name}.new").rename(name)
    return pid

@app.job
async def returns(name: str) -> str:
    return "worker" if fork(name) else "copy"

@app.job
async def awaits(name: str) -> str:
    pid = fork(name)
    await asyncio.sleep(0.05)
    return "worker" if pid else "copy"

@app.job
async def raises(name: str) -> str:
    if not fork(name):
        raise ValueError("in the copy")
    return "worker"

@app.job
def in_a_thread(name: str) -> str:
    return "worker" if fork(name) else "copy"

@app.job(isolate="process")
def in_a_child(name: str) -> str:
    return "worker" if fork(name) else "copy"
"""


@pytest.mark.parametrize("kind", ["returns", "awaits", "raises", "in_a_thread", "in_a_child"])
def test_what_a_handler_forks_settles_nothing_and_keeps_no_process_from_ending(
    start: Start, conn: psycopg.Connection, folder: Path, kind: str
) -> None:
    (folder / "shop.py").write_text(APP + FORKING, "utf-8")
    worker = start()
    worker.wait_for_log("worker started")
    names = [f"fork-{number}" for number in range(5)]
    for name in names:
        enqueue(conn, kind, name=name)
    asked = "select result from holdfast.ledger where kind = %s and outcome = 'succeeded'"
    worker.wait_until(lambda: len(conn.execute(asked, [kind]).fetchall()) == len(names), "all have ended")
    assert {result for (result,) in conn.execute(asked, [kind])} == {"worker"}
    copies = [int((folder / name).read_text("utf-8")) for name in names]
    worker.wait_until(lambda: not any(map(is_alive, copies)), "the copies have ended")
    worker.process.terminate()
    assert worker.process.wait(20) == 0
    assert conn.execute("select count(*) from holdfast.ledger").fetchall() == [(len(names),)]
