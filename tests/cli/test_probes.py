"""`/healthz` and `/readyz` of `holdfast worker --metrics-port`, of workers in every kind of trouble."""

import asyncio
import os
import signal
from pathlib import Path

import psycopg
import pytest

from cli.scrapes import asked, port_of, reasons, scraped, total, wait_for
from cli.worker_processes import APP, Start, enqueue, worker_process
from holdfast.cli import main
from support.proxy import Proxy

pytestmark = pytest.mark.machine  # each starts several interpreters

FREEZING = """
@app.job
async def freeze_the_lease_keeper() -> None:
    import threading
    from holdfast.worker import lease_keeper
    lease_keeper.renew = lambda *_, **__: threading.Event().wait()
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_draining_worker_is_healthy_and_not_ready(
    start: Start, conn: psycopg.Connection, folder: Path, processes: int
) -> None:
    worker = start("--metrics-port", "0", "--processes", str(processes))
    port = port_of(worker)
    wait_for(port, "/readyz", 200)
    worker.wait_for_log("worker started", times=processes)
    enqueue(conn, "wait_for", name=str(folder / "open"))
    worker.wait_until(lambda: total(scraped(port), "holdfast_slots_used") == 1, "the job runs")
    worker.signal()
    if processes == 1:
        wait_for(port, "/readyz", 503, "draining: it claims no more jobs")
    else:
        wait_for(port, "/readyz", 503, "process")
    assert asked(port, "/healthz") == (200, '{"ok": true, "reasons": []}\n')
    (folder / "open").touch()
    assert worker.ended() == 0


def test_a_quiet_worker_is_healthy_and_not_ready(
    start: Start, conn: psycopg.Connection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    worker = start("--metrics-port", "0")
    port = port_of(worker)
    wait_for(port, "/readyz", 200)
    row = conn.execute("select max(id) from holdfast.worker").fetchone()
    assert row
    assert main(["workers", "quiet", str(row[0])]) == 0
    wait_for(port, "/readyz", 503, "quiet, as an operator asked")
    assert asked(port, "/healthz")[0] == 200
    assert main(["workers", "resume", str(row[0])]) == 0
    wait_for(port, "/readyz", 200)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_blocked_event_loop_is_told_while_it_is_blocked(
    start: Start, conn: psycopg.Connection, processes: int
) -> None:
    worker = start("--metrics-port", "0", "--lease", "1s", "--processes", str(processes))
    port = port_of(worker)
    worker.wait_for_log("worker started", times=processes)
    assert asked(port, "/healthz")[0] == 200
    enqueue(conn, "block_the_loop", seconds=5)
    wait_for(port, "/healthz", 503, "the event loop is blocked for")
    assert len(list(reasons(port, "/healthz"))) == 1
    wait_for(port, "/healthz", 200)


def test_a_frozen_lease_keeper_is_told(start: Start, conn: psycopg.Connection, folder: Path) -> None:
    (folder / "shop.py").write_text(APP + FREEZING, "utf-8")
    worker = start("--metrics-port", "0", "--lease", "1s")
    port = port_of(worker)
    wait_for(port, "/readyz", 200)
    enqueue(conn, "freeze_the_lease_keeper")
    wait_for(port, "/healthz", 503, "the lease keeper is stuck for")


def test_a_process_that_is_frozen_as_a_whole_is_told_by_its_supervisor(start: Start) -> None:
    worker = start("--metrics-port", "0", "--lease", "1s", "--processes", "2")
    port = port_of(worker)
    worker.wait_for_log("worker started", times=2)
    frozen = worker.children()[0]
    os.kill(frozen, signal.SIGSTOP)
    try:
        wait_for(port, "/healthz", 503, f"process {frozen}: silent for")
        assert asked(port, "/readyz")[0] == 200
        assert total(scraped(port), "holdfast_processes") == 2
    finally:
        os.kill(frozen, signal.SIGCONT)
    wait_for(port, "/healthz", 200)


async def test_without_postgres_a_worker_is_healthy_and_is_not_ready_once_it_has_lost_its_lease(
    dsn: str, folder: Path
) -> None:
    async with Proxy.before(dsn) as proxy:
        options = ("-A", "shop:app", "--metrics-port", "0", "--lease", "2s")
        with worker_process(folder, proxy.dsn(dsn), *options) as worker:
            port = await asyncio.to_thread(port_of, worker)
            await asyncio.to_thread(wait_for, port, "/readyz", 200)
            proxy.refuse()
            proxy.reset()
            await asyncio.to_thread(wait_for, port, "/readyz", 503, "not registered in the database")
            assert (await asyncio.to_thread(asked, port, "/healthz"))[0] == 200
            metrics = await asyncio.to_thread(scraped, port)
            assert total(metrics, "holdfast_database_up") == 0
            assert total(metrics, "holdfast_worker_losses_total") == 1
            proxy.pass_through()
            await asyncio.to_thread(wait_for, port, "/readyz", 200)
            assert (await asyncio.to_thread(asked, port, "/healthz"))[0] == 200
            metrics = await asyncio.to_thread(scraped, port)
            assert total(metrics, "holdfast_database_up") == 1
