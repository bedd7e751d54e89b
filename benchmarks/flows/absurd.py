"""absurd-sdk: its asynchronous client with its own worker loop. A client has one connection, so several of
them share the flows: commits of several connections are flushed together, which is faster than one.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import absurdctl
import psycopg
from absurd_sdk import AsyncAbsurd, AsyncTaskContext

from benchmarks.flows.order import CLIENTS, STEPS, step
from benchmarks.peers.peer import QUEUE, Handle, Receipt


@dataclass(frozen=True, slots=True)
class Absurd:
    name: str = "absurd-sdk"
    unfinished: str = f"select count(*) from absurd.t_{QUEUE} where state <> 'completed'"

    async def prepare(self, dsn: str) -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        client = AsyncAbsurd(dsn, queue_name=QUEUE)
        await client.create_queue()
        await client.close()

    @asynccontextmanager
    async def producing(self, dsn: str, connections: int) -> AsyncIterator["_Producer"]:  # noqa: ARG002  # as all
        async with _client(dsn, _nobody) as client:
            yield _Producer(client)

    @asynccontextmanager
    async def working(self, dsn: str, concurrency: int, handle: Handle) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(_client(dsn, handle)) for _ in range(CLIENTS)]
            share = max(concurrency // CLIENTS, 1)
            async with asyncio.TaskGroup() as group:
                for client in clients:
                    group.create_task(client.start_worker(concurrency=share))
                try:
                    yield
                finally:
                    for client in clients:
                        client.stop_worker()


class _Producer:
    def __init__(self, client: AsyncAbsurd) -> None:
        self._client = client

    async def one(self, receipt: Receipt) -> None:
        await self._client.spawn("order", {"user_id": receipt.user_id})

    async def many(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            await self.one(receipt)


@asynccontextmanager
async def _client(dsn: str, handle: Handle) -> AsyncIterator[AsyncAbsurd]:
    client = AsyncAbsurd(dsn, queue_name=QUEUE)

    @client.register_task("order")
    async def order(params: Any, ctx: AsyncTaskContext) -> int:
        for number in range(STEPS):
            await ctx.step(f"step {number}", partial(step, handle, number))
        return int(params["user_id"])

    try:
        yield client
    finally:
        await client.close()


async def _nobody(sent: int) -> None:
    """Producers run no flows."""
