"""Committing on a connection that the handler brought, by the words of its own library."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from holdfast.errors import WrongConnection

_TAKES = "an AsyncSession or AsyncConnection of SQLAlchemy, or a connection of psycopg or asyncpg"
_TAKES_BLOCKING = "a Session or Connection of SQLAlchemy, a connection of psycopg, or Django's"


@asynccontextmanager
async def committing(connection: Any) -> AsyncIterator[None]:
    """Commit when the block ends well, roll back when it does not."""
    if _library(connection) == "asyncpg":
        async with connection.transaction():
            yield
        return
    if _library(connection) not in ("sqlalchemy", "psycopg"):
        raise WrongConnection(f"ctx.transaction() takes {_TAKES}, not {type(connection).__name__}")
    try:
        yield
    except BaseException:
        await connection.rollback()
        raise
    await connection.commit()


@contextmanager
def committing_blocking(connection: Any) -> Iterator[None]:
    """The same for a plain function."""
    if _library(connection) == "django":
        from django.db import transaction

        with transaction.atomic(using=connection.alias):
            yield
        return
    if _library(connection) not in ("sqlalchemy", "psycopg"):
        raise WrongConnection(f"ctx.transaction() takes {_TAKES_BLOCKING}, not {type(connection).__name__}")
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _library(connection: object) -> str:
    for kind in type(connection).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("asyncpg", "sqlalchemy", "psycopg", "django"):
            return root
    return ""
