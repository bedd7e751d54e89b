"""A worker that is told to stop while Postgres does not answer: it says what it leaves, and to whom."""

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from cli.worker_processes import APP, enqueue, worker_process
from holdfast import App
from holdfast.worker.stopping import Stopping
from support.proxy import Proxy
from support.waiting import until


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(dsn) as proxy:
        yield proxy


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stopping, "patience", timedelta(milliseconds=200))


def begin_outage(proxy: Proxy) -> None:
    proxy.refuse()
    proxy.reset()


@pytest.mark.usefixtures("impatient")
async def test_the_jobs_whose_ends_could_not_be_written_are_named_and_rescued(
    dsn: str, books: Books, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    may_end, begun = asyncio.Event(), asyncio.Semaphore(0)
    async with App(proxy.dsn(dsn)) as app:

        @app.job
        async def linger() -> None:
            begun.release()
            await may_end.wait()

        async with working(app, lease=60) as worker:
            jobs = [handle.id for handle in await app.enqueue_many([linger.call() for _ in range(25)])]
            for _ in range(20):  # as many as there are slots
                await begun.acquire()
            begin_outage(proxy)
            may_end.set()
        assert worker.unsettled == tuple(jobs[:20])
        [line] = [record for record in caplog.records if "could not be settled" in record.getMessage()]
        assert line.levelname == "ERROR"
        assert f"runs=20 jobs={','.join(map(str, jobs[:20]))} within=1m" in line.getMessage()
        caplog.clear()
        proxy.pass_through()
        books.run("update holdfast.worker set expires_at = now()")
        async with working(app) as other:
            await books.all_finished(25)
        assert other.unsettled == ()
    assert not [record for record in caplog.records if "could not be settled" in record.getMessage()]
    books.assert_balanced(25)


@pytest.mark.usefixtures("impatient")
async def test_a_worker_that_holds_nothing_leaves_nothing(
    dsn: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(proxy.dsn(dsn)) as app:

        @app.job
        async def idle() -> None: ...

        async with working(app) as worker:
            begin_outage(proxy)
        assert worker.unsettled == ()
    assert "could not be settled" not in caplog.text


@pytest.mark.usefixtures("impatient")
async def test_runs_that_were_lost_with_the_lease_while_it_stopped_are_named_too(
    dsn: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()
    async with App(proxy.dsn(dsn)) as app:

        @app.job
        async def linger() -> None:
            begun.set()
            await asyncio.Event().wait()

        async with working(app, lease=2) as worker:
            handle = await linger.enqueue()
            await begun.wait()
            begin_outage(proxy)
        assert worker.unsettled == (handle.id,)
    assert f"runs=1 jobs={handle.id} within=2s" in caplog.text


@pytest.mark.machine
async def test_the_command_ends_with_exit_code_1(dsn: str, proxy: Proxy, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        worker_process(tmp_path, proxy.dsn(dsn), "-A", "shop:app") as worker,
    ):
        job = enqueue(connection, "wait_for", name="gate")
        await until(
            lambda: connection.execute("select from holdfast.lease").fetchone() is not None, "it runs"
        )
        begin_outage(proxy)
        (tmp_path / "gate").touch()
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGINT)  # stop at once: it waits for the database for 3 s, not for 10
        assert await asyncio.to_thread(worker.ended) == 1
        assert f"jobs={job}" in worker.log
