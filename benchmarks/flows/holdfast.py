"""Holdfast. Checkpoints of flows that are written at the same time share a commit; nothing is tuned."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.flows.order import STEPS, step
from benchmarks.peers.peer import QUEUE, Handle, Receipt
from holdfast import App, Flow
from holdfast.job import Job
from holdfast.worker.options import WorkerOptions


@dataclass(frozen=True, slots=True)
class HoldfastFlows:
    name: str = "Holdfast"
    unfinished: str = "select (select count(*) from holdfast.ready) + (select count(*) from holdfast.lease)"

    async def prepare(self, dsn: str) -> None:
        """The database is cloned from a migrated one."""

    @asynccontextmanager
    async def producing(self, dsn: str, connections: int) -> AsyncIterator["_Producer"]:  # noqa: ARG002  # as all
        async with App(dsn) as app:
            yield _Producer(app, _flow(app, _nobody))

    @asynccontextmanager
    async def working(self, dsn: str, concurrency: int, handle: Handle) -> AsyncIterator[None]:
        async with App(dsn) as app:
            _flow(app, handle)
            async with app.worker(options=WorkerOptions(queues={QUEUE: concurrency})):
                yield


class _Producer:
    def __init__(self, app: App, flow: Job[[int], int]) -> None:
        self._app = app
        self._flow = flow

    async def one(self, receipt: Receipt) -> None:
        await self._flow.enqueue(receipt.user_id)

    async def many(self, receipts: Sequence[Receipt]) -> None:
        await self._app.enqueue_many([self._flow.call(each.user_id) for each in receipts])


def _flow(app: App, handle: Handle) -> Job[[int], int]:
    async def order(flow: Flow, user_id: int) -> int:
        for number in range(STEPS):
            await flow.step(f"step {number}", step, handle, number)
        return user_id

    return app.flow(name="order", queue=QUEUE)(order)


async def _nobody(sent: int) -> None:
    """Producers run no flows."""
