"""On Django's connection, inside an atomic block or in autocommit, seen by its loggers and wrappers."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta, timezone
from typing import Any, Protocol

from holdfast.errors import WrongConnection
from holdfast.postgres.borrowed.kinds import described
from holdfast.postgres.borrowed.values import Rows, written_into_text
from holdfast.postgres.statement import Statement


class DjangoCursor(Protocol):
    """What is used of Django's cursor, which ships no types."""

    description: Sequence[object] | None
    cursor: Any  # the driver's own, of psycopg 3 or psycopg2

    def execute(self, sql: str, params: Mapping[str, object], /) -> object: ...

    def fetchall(self) -> Sequence[Sequence[object]]: ...


class DjangoConnection(Protocol):
    vendor: str

    def cursor(self) -> AbstractContextManager[DjangoCursor]: ...


def fetch_blocking(connection: DjangoConnection, statement: Statement[object]) -> Rows:
    check(connection)
    with connection.cursor() as cursor:
        _keep_time_zones(cursor.cursor)
        cursor.execute(statement.text, written_into_text(statement.params))
        return cursor.fetchall() if cursor.description is not None else []


def check(connection: DjangoConnection) -> None:
    # Django's caches are behind the same proxy class as its connections, and have no vendor.
    vendor = getattr(connection, "vendor", None)
    if vendor is None:
        raise WrongConnection(f"{described(connection)} is not for a database: pass django.db.connection")
    if vendor != "postgresql":
        raise WrongConnection(
            f'this Django connection is for {vendor}: pass one for Postgres, such as connections["…"]'
        )


def _keep_time_zones(cursor: Any) -> None:
    """Django cuts the zone off (USE_TZ=False) or writes its own over it: on this cursor it stays."""
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if is_psycopg3:
        from psycopg.types.datetime import TimestamptzLoader

        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
    else:
        cursor.tzinfo_factory = _offset


def _offset(offset: timedelta) -> timezone:
    return timezone(offset)
