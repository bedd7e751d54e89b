"""On a connection of psycopg 3, whatever row factory, cursor class or adapters its owner has set."""

from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.rows import TupleRow, tuple_row

from holdfast.postgres.borrowed.kinds import closed
from holdfast.postgres.borrowed.values import Rows
from holdfast.postgres.lenient_rows import UNREADABLE, read_leniently
from holdfast.postgres.rows import has_rows
from holdfast.postgres.statement import Statement


class _Cursor(psycopg.Cursor[TupleRow]):
    @property
    def adapters(self) -> AdaptersMap:
        return psycopg.adapters


class _AsyncCursor(psycopg.AsyncCursor[TupleRow]):
    @property
    def adapters(self) -> AdaptersMap:
        return psycopg.adapters


async def fetch(connection: psycopg.AsyncConnection[Any], statement: Statement[object]) -> Rows:
    _check(connection)
    async with _AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(statement.text, statement.params)
        try:
            return await cursor.fetchall()
        except UNREADABLE as error:
            return _read_leniently(cursor, error)
        except psycopg.ProgrammingError:
            if not _ended_without_rows(cursor):
                raise
            return []


def fetch_blocking(connection: psycopg.Connection[Any], statement: Statement[object]) -> Rows:
    _check(connection)
    with _Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(statement.text, statement.params)
        try:
            return cursor.fetchall()
        except UNREADABLE as error:
            return _read_leniently(cursor, error)
        except psycopg.ProgrammingError:
            if not _ended_without_rows(cursor):
                raise
            return []


def _check(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    # A connection that broke is not the caller's mistake: psycopg's own error says so.
    if connection.closed and not connection.broken:
        raise closed(connection)


def _read_leniently(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any], error: Exception) -> Rows:
    """In a pipeline, the error may be the statement's own."""
    if not has_rows(cursor.pgresult):
        raise error
    return read_leniently(cursor.pgresult, cursor.connection)


def _ended_without_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    """Asked after the fetch: in the caller's pipeline there is no answer, nor an error, before it."""
    return cursor.statusmessage is not None and cursor.description is None
