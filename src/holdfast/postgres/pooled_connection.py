"""A connection as our pools keep it: psycopg's own, which knows its age and can tell whether it has ended."""

import random
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from time import monotonic
from typing import Protocol

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import TupleRow

from holdfast.postgres.options import PoolSettings
from holdfast.postgres.reply_timeouts import SocketProbe


@dataclass(slots=True)
class Life:
    """When a pooled connection was opened, when it was last used and when it ends (monotonic seconds)."""

    opened_at: float
    used_at: float
    expires_at: float

    @classmethod
    def begin(cls, settings: PoolSettings) -> "Life":
        now = monotonic()
        jitter = settings.pool_max_conn_lifetime_jitter.total_seconds() * random.random()  # noqa: S311  # no secret
        return cls(now, now, now + settings.pool_max_conn_lifetime.total_seconds() + jitter)


class Pooled(Protocol):
    """What the pools' shared core needs to know of a connection, awaited or blocking."""

    life: Life
    probe: SocketProbe

    @property
    def closed(self) -> bool: ...

    @property
    def pgconn(self) -> PGconn: ...

    @property
    def info(self) -> psycopg.ConnectionInfo: ...


class PooledConnection(psycopg.AsyncConnection[TupleRow]):
    life: Life
    probe: SocketProbe
    raw: psycopg.AsyncRawCursor[TupleRow]
    """Runs our own statements, one after the other: it remembers the types of those before."""

    def begin_life(self, settings: PoolSettings) -> None:
        self.life = Life.begin(settings)
        self.probe = SocketProbe(self)
        self.raw = psycopg.AsyncRawCursor(self)
        self._numbers = count(1)
        self._literals: dict[timedelta, bytes] = {}

    async def command(self, text: bytes) -> None:
        """Carry out commands without parameters; of several in one text, those after an error are not."""
        async with self.lock:
            results = await self.wait(_carried_out(self.pgconn, text))
        if results[-1].status == ExecStatus.FATAL_ERROR:
            raise error_from_result(results[-1], encoding=self.info.encoding)

    def literal(self, value: object) -> bytes:
        """The value as text of a statement. Lengths of time are remembered: they are settings, and few."""
        match value:
            case None:
                return b"null"
            case bool():  # an int too, for Python
                return b"true" if value else b"false"
            case int():
                return b"%d" % value
            case timedelta() if value in self._literals:
                return self._literals[value]
        written = sql.Literal(value).as_bytes(self)
        if isinstance(value, timedelta):
            self._literals = {value: written}
        return written

    # For the following psycopg has no public words: docs/explanation/connection-pool.md says why we lean on
    # these.

    def new_name(self) -> bytes:
        """For a statement that is about to be prepared: one that this session has never had."""
        return b"holdfast_%d" % next(self._numbers)

    def prepared_as(self, text: bytes) -> bytes | None:
        """The name under which this session has a statement that we have prepared ourselves."""
        names, key = self._prepared._names, (text, ())  # noqa: SLF001
        if (name := names.get(key)) is not None:
            names.move_to_end(key)
        return name

    def note_prepared(self, text: bytes, name: bytes) -> None:
        """In psycopg's own record: psycopg drops all statements of a session at once, as after a rollback,
        and single ones when they are many, and forgets ours with them.
        """
        self._prepared._names[text, ()] = name  # noqa: SLF001

    def __del__(self, *_: object) -> None:
        """Silent: psycopg warns of one that was never closed, but a pool's may end with its program."""


def _carried_out(libpq: PGconn, text: bytes) -> PQGen[list[PGresult]]:
    libpq.send_query(text)
    results: list[PGresult] = yield from execute(libpq)
    return results


class BlockingPooledConnection(psycopg.Connection[TupleRow]):
    life: Life
    probe: SocketProbe

    def begin_life(self, settings: PoolSettings) -> None:
        self.life = Life.begin(settings)
        self.probe = SocketProbe(self)

    def __del__(self, *_: object) -> None:
        """Silent, as for the awaited one."""
