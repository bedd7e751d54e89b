"""procrastinate: psycopg's pool, batch_defer for bulk. It fetches and finishes its jobs one by one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from procrastinate import App, PsycopgConnector
from procrastinate.tasks import Task

from benchmarks.peers.peer import QUEUE, Handle, Receipt

_CHUNK = 1_000


@dataclass(frozen=True, slots=True)
class Procrastinate:
    name: str = "procrastinate"
    unfinished: str = "select count(*) from procrastinate_jobs where status <> 'succeeded'"

    async def prepare(self, dsn: str) -> None:
        async with App(connector=PsycopgConnector(conninfo=dsn)).open_async() as app:
            await app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def producing(self, dsn: str, connections: int) -> AsyncIterator["_Producer"]:
        app = App(connector=PsycopgConnector(conninfo=dsn, min_size=connections, max_size=connections))
        async with app.open_async():
            yield _Producer(_task(app, _nobody))

    @asynccontextmanager
    async def working(self, dsn: str, concurrency: int, handle: Handle) -> AsyncIterator[None]:
        app = App(connector=PsycopgConnector(conninfo=dsn, min_size=4, max_size=20))
        _task(app, handle)
        async with app.open_async():
            running = asyncio.create_task(
                app.run_worker_async(
                    queues=[QUEUE], concurrency=concurrency, install_signal_handlers=False, listen_notify=True
                )
            )
            try:
                yield
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running


class _Producer:
    def __init__(self, task: Task[..., Any, ...]) -> None:
        self._task = task

    async def one(self, receipt: Receipt) -> None:
        await self._task.defer_async(**receipt.fields())

    async def many(self, receipts: Sequence[Receipt]) -> None:
        for begin in range(0, len(receipts), _CHUNK):
            await self._task.batch_defer_async(*(each.fields() for each in receipts[begin : begin + _CHUNK]))


def _task(app: App, handle: Handle) -> Task[..., Any, ...]:
    async def send_receipt(sent: int, user_id: int, template: str, note: str) -> None:  # noqa: ARG001  # a no-op
        await handle(sent)

    return app.task(queue=QUEUE, name="send_receipt")(send_receipt)


async def _nobody(sent: int) -> None:
    """Producers run no jobs."""
