"""Everything at once: workers killed, frozen and told to stop, sessions ended, the server crashed; and still
every job ends once.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from acceptance.books import Books
from acceptance.workers import WorkerProcess, Workers
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged
from support.server_faults import restart

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]

JOBS = 6_000
FAULTS = 16


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    directory: Path = tmp_path_factory.mktemp("server")
    with EmbeddedServer.start(directory, tcp=True) as running:
        yield running


@pytest.fixture
def dsn(own_server: EmbeddedServer) -> str:
    dsn = make_conninfo(own_server.tcp_dsn, dbname="postgres")
    with psycopg.connect(dsn) as connection:
        migrate(connection, Schema(), packaged())
    return dsn


class Chaos:
    """Three workers, and the faults that a test brings upon them."""

    def __init__(self, server: EmbeddedServer, books: Books, workers: Workers) -> None:
        self._server = server
        self._books = books
        self._workers = workers
        self.alive: list[WorkerProcess] = []
        self.done: list[str] = []

    async def start(self) -> None:
        self.alive.append(await self._workers.start(lease=2, grace=0.05, poll=1))

    async def strike(self) -> None:
        faults: list[Callable[[WorkerProcess], Awaitable[None]]] = [
            self.kill,
            self.freeze,
            self.tell_to_stop,
            self.end_sessions,
            self.crash,
        ]
        fault = random.choice(faults)
        self.done.append(fault.__name__)
        await fault(random.choice(self.alive))

    async def kill(self, worker: WorkerProcess) -> None:
        worker.kill()
        self.alive.remove(worker)
        await self.start()

    async def freeze(self, worker: WorkerProcess) -> None:
        worker.freeze()
        await asyncio.sleep(random.choice((0.5, 2, 4)))
        worker.thaw()

    async def tell_to_stop(self, worker: WorkerProcess) -> None:
        worker.terminate()
        self.alive.remove(worker)
        assert await worker.exit_code(30) == 0, "\n".join(worker.log)
        await self.start()

    async def end_sessions(self, worker: WorkerProcess) -> None:
        self._books.run(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name like 'holdfast/%' and random() < 0.5"
        )

    async def crash(self, worker: WorkerProcess) -> None:
        await asyncio.to_thread(restart, self._server, "immediate")


@pytest.mark.requirement("S4.3", "S2.35")
async def test_every_job_ends_once_whatever_happens(
    own_server: EmbeddedServer, shop: Any, books: Books, workers: Workers
) -> None:
    chaos = Chaos(own_server, books, workers)
    for _ in range(3):
        await chaos.start()
    half = JOBS // 2
    await shop.app.enqueue_many([shop.pay.call(number) for number in range(half)])
    await shop.app.enqueue_many(
        [shop.pay.using(delay=f"{number % 45}s").call(number) for number in range(half)]
    )
    for _ in range(FAULTS):
        await chaos.strike()
        await asyncio.sleep(random.random())
    print(*chaos.done, f"{books.finished()} of {JOBS} are finished")  # noqa: T201  # what is being survived
    await books.all_finished(JOBS, within=120)
    for worker in chaos.alive:
        await worker.stop()
    books.assert_balanced(JOBS)
    books.assert_effects_once(JOBS)
