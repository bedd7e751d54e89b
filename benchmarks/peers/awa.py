"""awa-pg: its newer queue storage, COPY for bulk; it claims and completes in batches by itself."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import awa

from benchmarks.peers.peer import QUEUE, Handle, Receipt

_KIND = "send_receipt"


@dataclass(frozen=True, slots=True)
class Awa:
    name: str = "awa-pg"
    # Its own view of all jobs takes half a second to answer; these are the tables behind it.
    unfinished: str = (
        "select (select count(*) from awa.ready_entries)"
        " - (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)"
    )

    async def prepare(self, dsn: str) -> None:
        async with awa.AsyncClient(dsn) as client:
            await client.migrate()
            await client.install_queue_storage(schema="awa")

    @asynccontextmanager
    async def producing(self, dsn: str, connections: int) -> AsyncIterator["_Producer"]:
        async with awa.AsyncClient(dsn, max_connections=connections) as client:
            yield _Producer(client)

    @asynccontextmanager
    async def working(self, dsn: str, concurrency: int, handle: Handle) -> AsyncIterator[None]:
        async with awa.AsyncClient(dsn) as client:

            @client.task(Receipt, kind=_KIND, queue=QUEUE)
            async def send_receipt(job: Any) -> None:
                await handle(job.args.sent)

            await client.start([{"name": QUEUE, "max_workers": concurrency}])
            try:
                yield
            finally:
                await client.shutdown()


class _Producer:
    def __init__(self, client: awa.AsyncClient) -> None:
        self._client = client

    async def one(self, receipt: Receipt) -> None:
        await self._client.insert(receipt, kind=_KIND, queue=QUEUE)

    async def many(self, receipts: Sequence[Receipt]) -> None:
        await self._client.enqueue_many_copy(list(receipts), kind=_KIND, queue=QUEUE)
