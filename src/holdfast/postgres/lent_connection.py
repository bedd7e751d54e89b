"""A pooled connection as the code of one block sees it: useless once the block has ended."""

from typing import Any, Final

import psycopg
from psycopg.rows import TupleRow

from holdfast.postgres.pooled_connection import PooledConnection

LEFT: Final = (
    "the block that this connection was for has ended: a task or thread that goes on after it needs a "
    "connection of its own"
)


class LentConnection(psycopg.AsyncConnection[TupleRow]):
    """Shares socket, session and lock with a pooled connection. A task that outlives its block would
    otherwise write into the transaction of whoever has the connection next.

    Made for each block: what a handler sets on it, such as a row factory, ends with the block.
    """

    def __init__(self, lender: PooledConnection) -> None:
        libpq = lender.pgconn
        self._handlers = libpq.notice_handler, libpq.notify_handler
        super().__init__(libpq)
        self.lock = lender.lock
        # psycopg has no public words for the following; docs/explanation/connection-pool.md says why we lean
        # on these. The session's prepared statements are known by one record.
        self._prepared = lender._prepared  # noqa: SLF001
        self._has_ended = self._is_over = False

    def enter_block(self) -> None:
        """From now on, psycopg refuses `commit()` and `rollback()`: as inside of its own `transaction()`."""
        self._num_transactions = 1

    def end(self) -> bool:
        """Nothing more can be sent. Returns whether the block is alone: no `transaction()` inside of it is
        still open.
        """
        self._has_ended = True
        return self._num_transactions == 1

    def give_up(self) -> None:
        """The connection is somebody else's from now on: a statement under way here cannot be cancelled any
        more, and nothing here closes it.
        """
        self._has_ended = self._is_over = True
        self.pgconn.notice_handler, self.pgconn.notify_handler = self._handlers

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """All that psycopg sends and reads passes here."""
        if self._has_ended:
            raise psycopg.OperationalError(LEFT)
        return super().wait(*args, **kwargs)

    @property
    def closed(self) -> bool:
        """Which keeps psycopg from closing it, too, and from cancelling what is another's."""
        return self._is_over or super().closed

    def __del__(self, *_: object) -> None:
        """Silent: it is forgotten while its socket is open, which is the pool's."""
