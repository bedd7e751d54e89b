"""From a connection of any library to the module that knows it, which is imported only then."""

from typing import TYPE_CHECKING, TypeVar, assert_never, cast

from holdfast.postgres.borrowed.driver_errors import explained
from holdfast.postgres.borrowed.kinds import awaited, blocking
from holdfast.postgres.borrowed.outage import outages_marked
from holdfast.postgres.borrowed.values import Rows, plain
from holdfast.postgres.statement import Statement

if TYPE_CHECKING:
    from typing import Any

    import psycopg
    from sqlalchemy.engine import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

    from holdfast.postgres.borrowed.on_asyncpg import AsyncpgConnection
    from holdfast.postgres.borrowed.on_django import DjangoConnection

T = TypeVar("T")


async def run_on(connection: object, statement: Statement[T]) -> list[T]:
    """Run `statement` in the transaction that is open on `connection`, which stays open.

    Takes a connection of psycopg (AsyncConnection), asyncpg (one of a pool, too) or SQLAlchemy
    (AsyncConnection, AsyncSession, async_scoped_session); anything else is WrongConnection.
    """
    with outages_marked(), explained(statement):
        rows = await _fetch(connection, statement)
    return _decoded(rows, statement)


def run_on_blocking(connection: object, statement: Statement[T]) -> list[T]:
    """Run `statement` in the transaction that is open on `connection`, which stays open.

    Takes a connection of psycopg (Connection), SQLAlchemy (Connection, Session, scoped_session) or
    Django; anything else is WrongConnection.
    """
    with outages_marked(), explained(statement):
        rows = _fetch_blocking(connection, statement)
    return _decoded(rows, statement)


async def _fetch(connection: object, statement: Statement[object]) -> Rows:
    library = awaited(connection)
    match library:
        case "psycopg":
            from holdfast.postgres.borrowed import on_psycopg

            return await on_psycopg.fetch(cast("psycopg.AsyncConnection[Any]", connection), statement)
        case "asyncpg":
            from holdfast.postgres.borrowed import on_asyncpg

            return await on_asyncpg.fetch(cast("AsyncpgConnection", connection), statement)
        case "sqlalchemy":
            from holdfast.postgres.borrowed import on_sqlalchemy

            return await on_sqlalchemy.fetch(cast("AsyncConnection | AsyncSession", connection), statement)
        case _:
            assert_never(library)


def _fetch_blocking(connection: object, statement: Statement[object]) -> Rows:
    library = blocking(connection)
    match library:
        case "psycopg":
            from holdfast.postgres.borrowed import on_psycopg

            return on_psycopg.fetch_blocking(cast("psycopg.Connection[Any]", connection), statement)
        case "sqlalchemy":
            from holdfast.postgres.borrowed import on_sqlalchemy

            return on_sqlalchemy.fetch_blocking(cast("Connection | Session", connection), statement)
        case "django":
            from holdfast.postgres.borrowed import on_django

            return on_django.fetch_blocking(cast("DjangoConnection", connection), statement)
        case _:
            assert_never(library)


def _decoded(rows: Rows, statement: Statement[T]) -> list[T]:
    return statement.results(map(plain, row) for row in rows)
