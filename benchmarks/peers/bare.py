"""No system at all: the shortest statements through psycopg that a queue could consist of.

One row is one insert. A job that is to be picked up is inserted and announced in one commit, taken by a loop
that listens, deletes what is there and calls the handler. Nothing is retried, leased, or remembered.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks.peers.peer import QUEUE, Handle, Receipt

_TABLE = """
create table bare (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  queue text not null,
  kind text not null,
  args jsonb not null
)
"""
_INSERT = "insert into bare (queue, kind, args) values (%s, %s, %s) returning id"
_ANNOUNCE = f"with new as ({_INSERT}) select pg_notify('bare', '') from new"
_CLAIM = """
delete from bare
 where id in (select id from bare where queue = %s order by id limit %s for update skip locked)
returning args
"""

Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Bare:
    """`is_announced`: with NOTIFY, for whoever listens."""

    name: str = "bare SQL"
    is_announced: bool = False
    unfinished: str = "select count(*) from bare"

    async def prepare(self, dsn: str) -> None:
        async with await _connect(dsn) as connection:
            await connection.execute(_TABLE)

    @asynccontextmanager
    async def producing(self, dsn: str, connections: int) -> AsyncIterator["_Producer"]:
        free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
        async with AsyncExitStack() as stack:
            for _ in range(connections):
                free.put_nowait(await stack.enter_async_context(await _connect(dsn)))
            yield _Producer(free, _ANNOUNCE if self.is_announced else _INSERT)

    @asynccontextmanager
    async def working(self, dsn: str, concurrency: int, handle: Handle) -> AsyncIterator[None]:
        async with await _connect(dsn) as listening, await _connect(dsn) as claiming:
            await listening.execute("listen bare")
            running = asyncio.create_task(_work(listening, claiming, concurrency, handle))
            try:
                yield
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running


class _Producer:
    """Who finds no free connection waits for one, as with any pool."""

    def __init__(self, free: "asyncio.LifoQueue[Connection]", insert: str) -> None:
        self._free = free
        self._insert = insert

    async def one(self, receipt: Receipt) -> None:
        connection = await self._free.get()
        try:
            await connection.execute(self._insert, (QUEUE, "send_receipt", json.dumps(receipt.fields())))
        finally:
            self._free.put_nowait(connection)

    async def many(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            await self.one(receipt)


async def _work(listening: Connection, claiming: Connection, concurrency: int, handle: Handle) -> None:
    async for _ in listening.notifies():
        rows = await (await claiming.execute(_CLAIM, (QUEUE, concurrency))).fetchall()
        await asyncio.gather(*(handle(args["sent"]) for (args,) in rows))


async def _connect(dsn: str) -> Connection:
    return await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0)
