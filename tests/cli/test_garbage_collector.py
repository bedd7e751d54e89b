"""A worker does not collect garbage in what its program has imported, however the worker is started."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.worker_processes import APP, Start, enqueue

pytestmark = pytest.mark.machine  # each starts several interpreters

TELLING = """
import gc

@app.job
async def tell() -> list[int]:
    return [gc.get_threshold()[0], gc.get_freeze_count()]
"""
CHOSEN = "import gc\ngc.set_threshold(1_234)\n"
PROGRAM = """
import asyncio
import os
import signal

import shop

async def main() -> None:
    async with shop.app as app:
        running = asyncio.create_task(app.run_worker())
        await app.handle(int(os.environ["JOB"])).result(timeout="60s")
        os.kill(os.getpid(), signal.SIGTERM)
        await running

asyncio.run(main())
"""


def told(conn: psycopg.Connection, job: int) -> tuple[int, int]:
    [(result,)] = conn.execute("select result from holdfast.ledger where job = %s", [job]).fetchall()
    threshold, frozen = result
    return threshold, frozen


@pytest.mark.parametrize("arguments", [(), ("--processes", "2")])
def test_the_command_tunes_it(
    start: Start, conn: psycopg.Connection, folder: Path, arguments: tuple[Any, ...]
) -> None:
    (folder / "shop.py").write_text(APP + TELLING, "utf-8")
    job = enqueue(conn, "tell")
    worker = start("--once", *arguments)
    assert worker.ended() == 0, worker.log
    threshold, frozen = told(conn, job)
    assert threshold == 10_000
    assert frozen > 10_000


def test_a_program_tunes_it(conn: psycopg.Connection, folder: Path, dsn: str) -> None:
    (folder / "shop.py").write_text(APP + TELLING, "utf-8")
    (folder / "program.py").write_text(PROGRAM, "utf-8")
    job = enqueue(conn, "tell")
    environment = {"HOLDFAST_DSN": dsn, "JOB": str(job)}
    subprocess.run([sys.executable, "program.py"], cwd=folder, env=environment, check=True, timeout=120)
    threshold, frozen = told(conn, job)
    assert threshold == 10_000
    assert frozen > 10_000


def test_a_threshold_that_the_app_has_set_stays(start: Start, conn: psycopg.Connection, folder: Path) -> None:
    (folder / "shop.py").write_text(APP + CHOSEN + TELLING, "utf-8")
    job = enqueue(conn, "tell")
    worker = start("--once")
    assert worker.ended() == 0, worker.log
    threshold, frozen = told(conn, job)
    assert threshold == 1_234
    assert frozen > 10_000
