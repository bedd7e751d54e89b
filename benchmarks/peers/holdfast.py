"""Holdfast as a program of its own, by `app.run_worker()`. It batches by itself, nothing is tuned."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import psycopg

from benchmarks.peers.peer import QUEUE, Handle, Receipt
from holdfast import App
from holdfast.domain.retention import Retention
from holdfast.job import Job
from holdfast.postgres.options import PoolOptions
from holdfast.worker.options import WorkerOptions

_HAS_BEGUN = "select 1 from holdfast.worker where pid = %s and lost_at is null"


@dataclass(frozen=True, slots=True)
class Holdfast:
    """`queues`: how many, of which all but one stay empty. `keep`: for how long finished jobs are kept."""

    name: str = "Holdfast"
    queues: int = 1
    keep: timedelta = timedelta(hours=24)
    unfinished: str = "select (select count(*) from holdfast.ready) + (select count(*) from holdfast.lease)"

    async def prepare(self, dsn: str) -> None:
        """The database is cloned from a migrated one."""

    @asynccontextmanager
    async def producing(self, dsn: str, connections: int) -> AsyncIterator["_Producer"]:
        pool = PoolOptions(pool_min_conns=connections, pool_max_conns=connections)
        async with App(dsn, pool=pool) as app:
            yield _Producer(app, _job(app, _nobody))

    @asynccontextmanager
    async def working(self, dsn: str, concurrency: int, handle: Handle) -> AsyncIterator[None]:
        names = [QUEUE, *(f"empty_{number}" for number in range(1, self.queues))]
        options = WorkerOptions(
            queues=dict.fromkeys(names, concurrency), retention=Retention(succeeded=self.keep)
        )
        async with App(dsn) as app:
            _job(app, handle)
            running = asyncio.create_task(app.run_worker(options=options))
            await _until_registered(dsn)
            try:
                yield
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                await running


async def _until_registered(dsn: str) -> None:
    """The worker's own word, not that of a reader: one would cost something with every job."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        while not await (await connection.execute(_HAS_BEGUN, [os.getpid()])).fetchone():  # noqa: ASYNC110  # it happens in the database
            await asyncio.sleep(0.01)


class _Producer:
    def __init__(self, app: App, job: Job[[int, int, str, str], None]) -> None:
        self._app = app
        self._job = job

    async def one(self, receipt: Receipt) -> None:
        await self._job.enqueue(receipt.sent, receipt.user_id, receipt.template, receipt.note)

    async def many(self, receipts: Sequence[Receipt]) -> None:
        await self._app.enqueue_many(
            self._job.call(each.sent, each.user_id, each.template, each.note) for each in receipts
        )


def _job(app: App, handle: Handle) -> Job[[int, int, str, str], None]:
    async def send_receipt(sent: int, user_id: int, template: str, note: str) -> None:  # noqa: ARG001  # a no-op
        await handle(sent)

    return app.job(name="send_receipt", queue=QUEUE)(send_receipt)


async def _nobody(sent: int) -> None:
    """Producers run no jobs."""
