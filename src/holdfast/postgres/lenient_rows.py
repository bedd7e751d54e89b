"""Rows with a time that Python cannot hold: `infinity`, a year after 9999 or before Christ.

psycopg refuses them, and with them every other row of the same reply: of a claim, all jobs of a batch that is
committed by then. Such a reply is read a second time, with the nearest time that Python has in their place.
It costs nothing where there is no such row.
"""

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import AdaptersMap, Buffer, Loader, Transformer
from psycopg.pq import Format
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

# A day from the very ends: in any time zone, and with a little added or taken away, they are still times.
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)
LONGEST = timedelta(days=3_650_000)

# What psycopg raises for them.
UNREADABLE = (psycopg.DataError, OverflowError, ValueError)

_TIME = struct.Struct("!q")
_LENGTH = struct.Struct("!qii")
_DAY_MICROSECONDS = 86_400_000_000


def read_leniently(
    reply: PGresult, connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]"
) -> list[TupleRow]:
    """All rows of a reply that psycopg has refused to read."""
    transformer = Transformer(_Context(connection))
    transformer.set_pgresult(reply)
    return transformer.load_rows(0, reply.ntuples, tuple)


class _Context(AdaptContext):
    def __init__(self, connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> None:
        self._connection = connection

    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS

    @property
    def connection(self) -> "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]":
        return self._connection


class _Lenient(Loader):
    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        strict = psycopg.adapters.get_loader(oid, self.format)
        assert strict is not None, "psycopg reads times"  # noqa: S101  # a mistake of this package
        self._strict = strict(oid, context)

    def load(self, data: Buffer) -> Any:
        try:
            return self._strict.load(data)
        except UNREADABLE:
            return self.nearest(bytes(data))

    def nearest(self, data: bytes) -> datetime | timedelta:
        raise NotImplementedError


class _TextTime(_Lenient):
    format = Format.TEXT

    def nearest(self, data: bytes) -> datetime:
        return EARLIEST if data.startswith(b"-") or data.endswith(b"BC") else LATEST


class _BinaryTime(_Lenient):
    format = Format.BINARY

    def nearest(self, data: bytes) -> datetime:
        return EARLIEST if _TIME.unpack(data)[0] < 0 else LATEST


class _TextLength(_Lenient):
    format = Format.TEXT

    def nearest(self, data: bytes) -> timedelta:
        return -LONGEST if data.startswith(b"-") else LONGEST


class _BinaryLength(_Lenient):
    format = Format.BINARY

    def nearest(self, data: bytes) -> timedelta:
        microseconds, days, months = _LENGTH.unpack(data)
        is_negative = microseconds + (days + 30 * months) * _DAY_MICROSECONDS < 0
        return -LONGEST if is_negative else LONGEST


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    for loader in (_TextTime, _BinaryTime):
        adapters.register_loader("timestamptz", loader)
    for of_lengths in (_TextLength, _BinaryLength):
        adapters.register_loader("interval", of_lengths)
    return adapters


_ADAPTERS = _adapters()
