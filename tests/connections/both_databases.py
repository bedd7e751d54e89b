"""The awaited and the blocking database behind one interface, so that each rule is proven for both."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions, PoolSettings
from holdfast.postgres.statement import Statement

T = TypeVar("T")
Colour = Literal["async", "blocking"]


@dataclass(frozen=True)
class Either:
    """A Database, or a BlockingDatabase each of whose calls has a thread."""

    it: Database | BlockingDatabase

    @property
    def settings(self) -> PoolSettings:
        return self.it.settings

    async def run(self, statement: Statement[T]) -> list[T]:
        if isinstance(self.it, Database):
            return await self.it.run(statement)
        return await asyncio.to_thread(self.it.run, statement)

    async def run_one(self, statement: Statement[T]) -> T:
        if isinstance(self.it, Database):
            return await self.it.run_one(statement)
        return await asyncio.to_thread(self.it.run_one, statement)

    async def run_together(self, statements: Sequence[Statement[T]]) -> list[T]:
        """Several statements in one transaction."""
        if isinstance(self.it, Database):
            async with self.it.transaction() as transaction:
                return [row for statement in statements for row in await transaction.run(statement)]
        return await asyncio.to_thread(_run_together, self.it, statements)

    async def spread(self, connections: int) -> set[int]:
        """Use so many connections at once, so that the pool has them; their backends."""
        async with asyncio.TaskGroup() as tasks:
            waits = [tasks.create_task(self.run_one(backend_after(0.2))) for _ in range(connections)]
        return {wait.result() for wait in waits}


def _run_together(database: BlockingDatabase, statements: Sequence[Statement[T]]) -> list[T]:
    with database.transaction() as transaction:
        return [row for statement in statements for row in transaction.run(statement)]


@asynccontextmanager
async def opened(colour: Colour, dsn: str, options: PoolOptions | None = None) -> AsyncIterator[Either]:
    async with entered(Database(dsn, options) if colour == "async" else BlockingDatabase(dsn, options)) as it:
        yield it


@asynccontextmanager
async def entered(database: Database | BlockingDatabase) -> AsyncIterator[Either]:
    if isinstance(database, Database):
        async with database:
            yield Either(database)
        return
    blocking = database
    await asyncio.to_thread(blocking.open)
    try:
        yield Either(blocking)
    finally:
        await asyncio.to_thread(blocking.close)


def backend_after(seconds: float) -> Statement[int]:
    text = "select pg_backend_pid() from pg_sleep(%(seconds)s::float8)"
    return Statement("backend", text, {"seconds": seconds}, int)


def asking(text: str, *, is_repeatable: bool = False, **params: object) -> Statement[object]:
    """A statement whose first column is the answer."""
    return Statement("asking", text, params, lambda first, *_: first, is_repeatable)


BACKEND = asking("select pg_backend_pid()")
