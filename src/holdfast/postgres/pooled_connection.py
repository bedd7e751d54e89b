"""A connection as our pools keep it: psycopg's own, which knows its age and can tell whether it has ended."""

import random
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

import psycopg
from psycopg.pq.abc import PGconn
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

    def __del__(self, *_: object) -> None:
        """Silent: psycopg warns of one that was never closed, but a pool's may end with its program."""


class BlockingPooledConnection(psycopg.Connection[TupleRow]):
    life: Life
    probe: SocketProbe

    def begin_life(self, settings: PoolSettings) -> None:
        self.life = Life.begin(settings)
        self.probe = SocketProbe(self)

    def __del__(self, *_: object) -> None:
        """Silent, as for the awaited one."""
