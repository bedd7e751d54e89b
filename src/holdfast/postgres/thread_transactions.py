"""Transactions for threads on the connections of an event loop's `Database`, so that both share one pool.

The loop takes the connection, begins, commits and gives it back, with all that `Database` knows about lost
and silent servers. In between only the thread uses it, through psycopg's blocking calls.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg.rows import TupleRow

from holdfast.errors import DatabaseClosed, InvalidInput
from holdfast.postgres.database import Database, Transaction
from holdfast.postgres.pooled_connection import PooledConnection

T = TypeVar("T")

_CLOSED = "this Database is closed, and its event loop has ended"
_LOOK_SECONDS = 5.0


class BlockingFace(psycopg.Connection[TupleRow]):
    """A blocking connection over the socket and session of an awaited one, for as long as a thread has it.

    Made for each block: what a handler sets on it, such as a row factory, ends with the block.
    """

    def __init__(self, awaited: PooledConnection) -> None:
        super().__init__(awaited.pgconn)
        # Both prepare statements in one session, and must not give a name twice. psycopg has no public word
        # for it; docs/explanation/connection-pool.md says why we lean on this one.
        self._prepared = awaited._prepared  # noqa: SLF001

    def __del__(self, *_: object) -> None:
        """Silent: it may be forgotten while its socket is open, which is the pool's."""

    @classmethod
    @contextmanager
    def over(cls, awaited: PooledConnection) -> "Iterator[BlockingFace]":
        libpq = awaited.pgconn
        handlers = libpq.notice_handler, libpq.notify_handler
        try:
            yield cls(awaited)
        finally:
            libpq.notice_handler, libpq.notify_handler = handlers


@dataclass(frozen=True, slots=True)
class ThreadTransaction:
    connection: BlockingFace


class ThreadTransactions:
    """Made on the event loop of its database; used from any other thread of that process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def transaction(self) -> Iterator[ThreadTransaction]:
        """As `Database.transaction`."""
        if _running_loop() is self._loop:
            raise InvalidInput("in a coroutine write `async with`: a plain `with` would stop its event loop")
        block = self._database.transaction()
        begun = self._begin(block)
        try:
            with BlockingFace.over(begun.connection) as connection:
                yield ThreadTransaction(connection)
        except BaseException as error:
            self._on_loop(_ended(block, error))
            raise
        self._on_loop(_ended(block, None))

    def _begin(self, block: AbstractAsyncContextManager[Transaction]) -> Transaction:
        beginning = self._submit(block.__aenter__())
        try:
            return self._result(beginning)
        except BaseException:
            # A thread that leaves here has no transaction: one that is begun all the same is rolled back.
            if not beginning.cancel() and not beginning.cancelled() and not beginning.exception():
                self._submit(_ended(block, DatabaseClosed(_CLOSED)))
            raise

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


async def _ended(block: AbstractAsyncContextManager[Transaction], error: BaseException | None) -> None:
    """What the thread raised is its own: here it only says that nothing is to be committed."""
    if error is None:
        await block.__aexit__(None, None, None)
        return
    raised = RuntimeError("the thread's block has ended with an error")
    try:
        await block.__aexit__(RuntimeError, raised, None)
    except RuntimeError as same:
        if same is not raised:
            raise


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
