"""Connections of a handler's own, of every library that `ctx.transaction(…)` takes."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager as Awaited
from contextlib import AbstractContextManager as Plain
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import sqlalchemy as sa
from django.db import connection as django_connection
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from borrowed.caller_connections import parts

Run = Callable[[str], Any]
"""Sends a text by the words of the connection's library."""


@dataclass(frozen=True)
class Way:
    """A handler's own connection, opened for one run; one of the two."""

    awaited: Callable[[str], Awaited[tuple[Any, Run]]] | None = None
    plain: Callable[[str], Plain[tuple[Any, Run]]] | None = None


def by_psycopg(prepare: str = "", **options: Any) -> Way:
    @asynccontextmanager
    async def awaited(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
        async with await psycopg.AsyncConnection.connect(dsn, **options) as connection:
            if prepare:
                await connection.execute(prepare.encode())
            yield connection, lambda text: connection.execute(text.encode())

    return Way(awaited)


def by_blocking_psycopg(prepare: str = "", **options: Any) -> Way:
    @contextmanager
    def plain(dsn: str) -> Iterator[tuple[Any, Run]]:
        with psycopg.connect(dsn, **options) as connection:
            if prepare:
                connection.execute(prepare.encode())
            yield connection, lambda text: connection.execute(text.encode())

    return Way(plain=plain)


@asynccontextmanager
async def asyncpg_connection(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
    connection = await asyncpg.connect(**parts(dsn, dbname="database"))
    try:
        yield connection, connection.execute
    finally:
        await connection.close()


def by_async_sqlalchemy(driver: str, of: str = "session", prepare: str = "", **options: Any) -> Way:
    @asynccontextmanager
    async def awaited(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
        arguments = parts(dsn, dbname="database") if driver == "asyncpg" else parts(dsn)
        engine = create_async_engine(
            f"postgresql+{driver}://", connect_args=arguments, poolclass=sa.NullPool, **options
        )
        async with AsyncSession(engine) if of == "session" else engine.connect() as connection:
            if prepare:
                await connection.execute(sa.text(prepare))
            yield connection, lambda text: connection.execute(sa.text(text))

    return Way(awaited)


def by_sqlalchemy(driver: str, of: str = "session", **options: Any) -> Way:
    @contextmanager
    def plain(dsn: str) -> Iterator[tuple[Any, Run]]:
        engine = sa.create_engine(
            f"postgresql+{driver}://", connect_args=parts(dsn), poolclass=sa.NullPool, **options
        )
        with Session(engine) if of == "session" else engine.connect() as connection:
            yield connection, lambda text: connection.execute(sa.text(text))

    return Way(plain=plain)


@contextmanager
def django_own(dsn: str) -> Iterator[tuple[Any, Run]]:
    def run(text: str) -> None:
        with django_connection.cursor() as cursor:
            cursor.execute(text)

    try:
        yield django_connection, run
    finally:
        django_connection.close()
