"""pgqueuer: over a pool of asyncpg's; batches as large as its limit on concurrency allows."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job

from benchmarks.peers.peer import Handle, Receipt

_ENTRYPOINT = "send_receipt"
_CHUNK = 5_000


@dataclass(frozen=True, slots=True)
class Pgqueuer:
    name: str = "pgqueuer"
    unfinished: str = "select count(*) from pgqueuer"

    async def prepare(self, dsn: str) -> None:
        async with asyncpg.create_pool(dsn, min_size=1, max_size=2) as pool:
            await Queries(AsyncpgPoolDriver(pool)).install()

    @asynccontextmanager
    async def producing(self, dsn: str, connections: int) -> AsyncIterator["_Producer"]:
        async with asyncpg.create_pool(dsn, min_size=connections, max_size=connections) as pool:
            yield _Producer(Queries(AsyncpgPoolDriver(pool)))

    @asynccontextmanager
    async def working(self, dsn: str, concurrency: int, handle: Handle) -> AsyncIterator[None]:
        async with asyncpg.create_pool(dsn, min_size=4, max_size=4) as pool:
            queuer = PgQueuer.from_asyncpg_pool(pool)

            @queuer.entrypoint(_ENTRYPOINT)
            async def send_receipt(job: Job) -> None:
                await handle(json.loads(job.payload or b"")["sent"])

            # It demands room for two batches.
            running = asyncio.create_task(
                queuer.run(batch_size=concurrency // 2, max_concurrent_tasks=concurrency)
            )
            try:
                yield
            finally:
                queuer.shutdown.set()
                await running


class _Producer:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def one(self, receipt: Receipt) -> None:
        await self._queries.enqueue(_ENTRYPOINT, json.dumps(receipt.fields()).encode())

    async def many(self, receipts: Sequence[Receipt]) -> None:
        for begin in range(0, len(receipts), _CHUNK):
            chunk = receipts[begin : begin + _CHUNK]
            payloads: list[bytes | None] = [json.dumps(each.fields()).encode() for each in chunk]
            await self._queries.enqueue([_ENTRYPOINT] * len(chunk), payloads, [0] * len(chunk))
