"""On a connection or a session of SQLAlchemy, through whichever Postgres driver its engine uses.

A session's pending objects are not flushed: our rows do not refer to them, and the order of writes inside
one transaction does not matter to anyone who sees them after the commit.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy.engine import Connection, CursorResult, Dialect

from holdfast.errors import WrongConnection
from holdfast.postgres.borrowed.kinds import closed, described
from holdfast.postgres.borrowed.values import Rows, for_asyncpg, written_into_text
from holdfast.postgres.statement import Statement

if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

Sent: TypeAlias = tuple[str, dict[str, object] | tuple[object, ...]]


def _named(statement: Statement[object]) -> Sent:
    return statement.text, written_into_text(statement.params)


_DRIVERS: Mapping[str, Callable[[Statement[object]], Sent]] = {
    "psycopg": _named,
    "psycopg_async": _named,
    "psycopg2": _named,
    "asyncpg": for_asyncpg,
}

# The caller may stream its own selects; DECLARE CURSOR takes no insert.
_OPTIONS = {"stream_results": False, "yield_per": None, "no_parameters": False}


async def fetch(connection: "AsyncConnection | AsyncSession", statement: Statement[object]) -> Rows:
    from sqlalchemy.ext.asyncio import AsyncConnection

    if not isinstance(connection, AsyncConnection):
        _sent(connection.get_bind().dialect, statement)
        connection = await connection.connection()
    if connection.sync_connection is None:
        raise WrongConnection(f'{described(connection)} is not open yet: await it, or use "async with"')
    if connection.closed:
        raise closed(connection)
    text, params = _sent(connection.dialect, statement)
    return _rows(await connection.exec_driver_sql(text, params, _OPTIONS))


def fetch_blocking(connection: "Connection | Session", statement: Statement[object]) -> Rows:
    if not isinstance(connection, Connection):
        _sent(connection.get_bind().dialect, statement)
        connection = connection.connection()
    if connection.closed:
        raise closed(connection)
    text, params = _sent(connection.dialect, statement)
    return _rows(connection.exec_driver_sql(text, params, _OPTIONS))


def _sent(dialect: Dialect, statement: Statement[object]) -> Sent:
    """Asked before a session opens its connection, which would begin a transaction on the wrong database."""
    write = _DRIVERS.get(dialect.driver) if dialect.name == "postgresql" else None
    if write is None:
        raise WrongConnection(
            f"this SQLAlchemy engine is {dialect.name}+{dialect.driver}: Holdfast runs on "
            "postgresql+psycopg, postgresql+psycopg2 and postgresql+asyncpg"
        )
    return write(statement)


def _rows(result: "CursorResult[Any]") -> Rows:
    return result.all() if result.returns_rows else []
