"""Transactions for threads on the connections of an event loop's `Database`, so that both share one pool.

The loop takes the connection, begins, commits and gives it back, with all that `Database` knows about lost
and silent servers. In between only the thread uses it, through psycopg's blocking calls.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

import psycopg
from psycopg.rows import TupleRow

from holdfast.errors import DatabaseClosed, InvalidInput
from holdfast.postgres.database import Database
from holdfast.postgres.lent_connection import LEFT, LentConnection
from holdfast.postgres.reply_timeouts import cut
from holdfast.postgres.session_settings import Isolation
from holdfast.postgres.statement import Statement
from holdfast.postgres.whole_transaction import WholeTransaction

T = TypeVar("T")

_CLOSED = "this Database is closed, and its event loop has ended"
_LOOK_SECONDS = 5.0


class BlockingFace(psycopg.Connection[TupleRow]):
    """A blocking connection over the socket and session of an awaited one, for as long as a thread has it."""

    def __init__(self, awaited: LentConnection) -> None:
        libpq = awaited.pgconn
        self._awaited = awaited
        self._handlers = libpq.notice_handler, libpq.notify_handler
        super().__init__(libpq)
        # Both prepare statements in one session, and must not give a name twice; both are in one block.
        # psycopg has no public words for it; docs/explanation/connection-pool.md says why we lean on these.
        self._prepared = awaited._prepared  # noqa: SLF001
        self._num_transactions = awaited._num_transactions  # noqa: SLF001
        self._use = threading.Lock()
        self._is_left = False

    def __del__(self, *_: object) -> None:
        """Silent: it may be forgotten while its socket is open, which is the pool's."""

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """All that psycopg sends and reads passes here. Another thread of the handler may still use this when
        its block ends; two threads at once on one socket would crash the process.
        """
        with self._use:
            if self._is_left:
                raise psycopg.OperationalError(LEFT)
            return super().wait(*args, **kwargs)

    def close(self) -> None:
        with self._use:
            if not self._is_left:
                super().close()

    def cancel(self) -> None:
        if not self._is_left:
            super().cancel()

    def cancel_safe(self, *, timeout: float = 30.0) -> None:
        if not self._is_left:
            super().cancel_safe(timeout=timeout)

    def leave(self, seconds: float) -> None:
        """From now on no thread can use it. A statement that another thread has sent is waited for, for so
        long; zero means for ever.
        """
        if not self._use.acquire(timeout=seconds or -1):
            cut(self.fileno())
            self._use.acquire()
        self._is_left = True
        self._use.release()
        self.pgconn.notice_handler, self.pgconn.notify_handler = self._handlers
        self._awaited._num_transactions = self._num_transactions  # noqa: SLF001  # see above


class ThreadTransactions:
    """Made on the event loop of its database; used from any other thread of that process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()

    def transaction(self, isolation: Isolation | None = None) -> "ThreadTransaction":
        """As `Database.whole_transaction`."""
        if _running_loop() is self._loop:
            raise InvalidInput("in a coroutine write `async with`: a plain `with` would stop its event loop")
        return ThreadTransaction(self._database.whole_transaction(isolation), self._loop)


class ThreadTransaction:
    """`begin`, then once `commit` or `roll_back`."""

    def __init__(self, whole: WholeTransaction, loop: asyncio.AbstractEventLoop) -> None:
        self._whole = whole
        self._loop = loop

    def begin(self) -> BlockingFace:
        beginning = self._submit(self._whole.begin())
        try:
            self._face = BlockingFace(self._result(beginning))
        except BaseException:
            # A thread that leaves here has no transaction: one that is begun all the same is rolled back.
            if not beginning.cancel() and not beginning.cancelled() and not beginning.exception():
                self._submit(self._whole.roll_back(DatabaseClosed(_CLOSED)))
            raise
        return self._face

    def commit(self, last: Statement[object]) -> None:
        self._face.leave(self._whole.reply_seconds)
        self._on_loop(self._whole.commit(last))

    def roll_back(self, error: BaseException) -> bool:
        self._face.leave(self._whole.reply_seconds)
        return self._on_loop(self._whole.roll_back(error))

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return self._result(self._submit(work))

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed
            work.close()
            raise DatabaseClosed(_CLOSED) from None

    def _result(self, future: "Future[T]") -> T:
        """Without a bound of its own, since what the loop does has one; but a loop that has ended never
        answers.
        """
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except FutureTimeoutError:
                if future.done():
                    raise
                if not self._loop.is_running():
                    raise DatabaseClosed(_CLOSED) from None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
