"""dbos: coroutines as workflows and steps on a queue of its own, its pool as large as its default."""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from dbos import DBOS, DBOSConfig
from psycopg.conninfo import conninfo_to_dict

from benchmarks.flows.order import STEPS, step
from benchmarks.peers.peer import Handle, Receipt

_QUEUE = "orders"
# The default is to look once a second.
_POLLING_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Dbos:
    name: str = "dbos"
    unfinished: str = (
        f"select count(*) from dbos.workflow_status where queue_name = '{_QUEUE}' and status <> 'SUCCESS'"
    )

    async def prepare(self, dsn: str) -> None:
        async with self.working(dsn, 1, _nobody):
            pass

    @asynccontextmanager
    async def producing(self, dsn: str, connections: int) -> AsyncIterator["_Producer"]:  # noqa: ARG002  # as all
        DBOS(config=_config(dsn))
        DBOS.listen_queues([])
        order = _flow(_nobody)
        DBOS.launch()
        try:
            yield _Producer(order)
        finally:
            DBOS.destroy()

    @asynccontextmanager
    async def working(self, dsn: str, concurrency: int, handle: Handle) -> AsyncIterator[None]:
        DBOS(config=_config(dsn))
        _flow(handle)
        DBOS.launch()
        try:
            await DBOS.register_queue_async(
                _QUEUE, worker_concurrency=concurrency, polling_interval_sec=_POLLING_SECONDS
            )
            yield
        finally:
            DBOS.destroy()


class _Producer:
    def __init__(self, order: "Callable[[int], Coroutine[Any, Any, int]]") -> None:
        self._order = order

    async def one(self, receipt: Receipt) -> None:
        await DBOS.enqueue_workflow_async(_QUEUE, self._order, receipt.user_id)

    async def many(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            await self.one(receipt)


def _flow(handle: Handle) -> "Callable[[int], Coroutine[Any, Any, int]]":
    @DBOS.workflow(name="order")
    async def order(user_id: int) -> int:
        for number in range(STEPS):
            await DBOS.run_step_async({"name": f"step {number}"}, step, handle, number)
        return user_id

    return order


def _config(dsn: str) -> DBOSConfig:
    """A socket's directory goes into the query: it does not read one in place of the host."""
    parts = conninfo_to_dict(dsn)
    url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}&port={parts['port']}"
    return {"name": "orders", "system_database_url": url, "application_version": "1", "log_level": "WARNING"}


async def _nobody(sent: int) -> None:
    """Producers run no flows."""
