"""A database whose clock a test sets: statements ask `statement_timestamp()`, which is another one there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

_CLOCK = """
create or replace function clock.statement_timestamp() returns timestamptz language plpgsql stable as $$
begin {} end $$
"""


class DatabaseClock:
    """What it says counts for connections that are made after it was put in place."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        name = sql.Identifier(connection.info.dbname)
        connection.execute("create schema clock")
        self.shift("0")
        connection.execute(
            sql.SQL("alter database {} set search_path = clock, pg_catalog, public").format(name)
        )

    @classmethod
    @contextmanager
    def of(cls, dsn: str) -> Iterator["DatabaseClock"]:
        with psycopg.connect(dsn, autocommit=True) as connection:
            yield cls(connection)

    def shift(self, interval: str) -> None:
        """From now on it is so much later."""
        self._set(f"return pg_catalog.statement_timestamp() + interval '{interval}';")

    def stop(self) -> None:
        """From now on it gives no answer, but an error."""
        self._set("raise exception 'the clock has stopped';")

    def _set(self, body: str) -> None:
        self._connection.execute(_CLOCK.format(body).encode())
