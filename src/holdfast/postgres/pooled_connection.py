"""A connection as our pools keep it: psycopg's own, which knows its age and can tell whether it has ended."""

import random
from dataclasses import dataclass
from itertools import count
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
        self._numbers = count(1)
        self._rows_and_cursors = self.row_factory, self.cursor_factory

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

    def enter_block(self) -> None:
        """From now on, psycopg refuses `commit()` and `rollback()`: as inside of its own `transaction()`."""
        self._num_transactions = 1

    def leave_block(self) -> bool:
        """Whether the block is alone: no `transaction()` inside of it is still open. A row factory that was
        set in the block must not be there for the next one.
        """
        is_alone = self._num_transactions == 1
        self._num_transactions = 0
        self.row_factory, self.cursor_factory = self._rows_and_cursors
        return is_alone

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
