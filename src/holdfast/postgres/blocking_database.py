"""Holdfast's own connections for callers without an event loop: the same words as `database`, blocking.

Opened at the first use and safe to share between threads. A child made by fork gets a pool of its own: the
parent's connections are the parent's, and two processes that speak on one socket garble it.
"""

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

import psycopg
from psycopg.rows import TupleRow

from holdfast.errors import DatabaseClosed
from holdfast.postgres.availability import Availability
from holdfast.postgres.blocking_pool import BlockingPool
from holdfast.postgres.connection_target import ConnectionTarget, dedicated
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.pooled_connection import BlockingPooledConnection
from holdfast.postgres.pooler_detection import PoolerMode, find_pooler
from holdfast.postgres.rows import the_one
from holdfast.postgres.session_settings import SessionSettings
from holdfast.postgres.statement import Statement
from holdfast.postgres.statement_retries import Tries
from holdfast.postgres.translate import translated

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Opened:
    pool: BlockingPool
    session: SessionSettings


@dataclass(slots=True)
class _InThisProcess:
    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: _Opened | None = None


class BlockingDatabase:
    """Connections to one database, for any number of threads."""

    def __init__(
        self,
        dsn: str | Dsn,
        options: PoolOptions | None = None,
        *,
        purpose: str = "pool",
        session: Mapping[str, str] | None = None,
        availability: Availability | None = None,
    ) -> None:
        """`session` are settings of Postgres that every connection has, such as `{"jit": "off"}`. Pools that
        share an `availability` say together, once, that they lost their connections.
        """
        self._target = ConnectionTarget.choose(
            dsn, options, purpose=purpose, session=session, availability=availability
        )
        self.dsn = self._target.dsn
        self.settings = self._target.settings
        self._is_closed = False
        # By process id, and never forgotten: dropping what a parent opened would close it under the parent.
        self._processes: dict[int, _InThisProcess] = {}

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect now rather than at the first use."""
        self._open()

    def close(self) -> None:
        """New requests fail from now on; a connection that is lent out is closed when it comes back."""
        here = self._here
        with here.lock:
            self._is_closed = True
            if here.opened:
                here.opened.pool.close()

    @property
    def pooler(self) -> PoolerMode:
        """What sits between us and Postgres."""
        return self._open().session.pooler

    def run(self, statement: Statement[T]) -> list[T]:
        """Run a statement in a transaction of its own, again if that is safe."""
        if self._open().session.needs_transactions:
            with self.transaction() as transaction:
                return transaction.run(statement)
        tries = Tries(statement)
        pool = self._open().pool
        while True:
            try:
                with pool.lend() as connection:
                    rows = pool.send(connection, *statement.encoded())
                return statement.results(rows)
            except psycopg.Error as error:
                wait = tries.wait_after(error)
            time.sleep(wait)

    def run_one(self, statement: Statement[T]) -> T:
        """Like `run`, for a statement that answers with exactly one row."""
        return the_one(statement, self.run(statement))

    @contextmanager
    def transaction(self) -> Iterator["BlockingTransaction"]:
        """Several statements in one commit. Nothing is repeated here: only the caller knows the whole."""
        opened = self._open()
        pool = opened.pool
        with pool.lend() as connection:
            with translated("begin"):
                pool.send(connection, opened.session.begin)
            try:
                yield BlockingTransaction(connection, pool)
            except BaseException:
                pool.roll_back(connection)
                raise
            if (failed := pool.core.why_not_commit(connection)) is not None:
                pool.roll_back(connection)
                raise failed
            with translated("commit"):
                pool.send(connection, b"commit")

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[TupleRow]]:
        """A connection out of the pool, in autocommit. Its errors are psycopg's, its waits have no bound."""
        with self._open().pool.lend() as connection:
            yield connection

    def dedicated(self, *, purpose: str) -> psycopg.Connection[TupleRow]:
        """A connection outside the pool, which the caller closes.

        Unlike pooled ones it may sit in a transaction for as long as it likes.
        """
        session = dedicated(self._open().session)
        try:
            connection = psycopg.connect(
                self.dsn.conninfo(purpose), autocommit=True, prepare_threshold=session.prepare_threshold
            )
            if session.opening:
                _prepare(connection, session.opening)
        except psycopg.Error as error:
            raise self._target.failed(error) from error
        return connection

    @property
    def _here(self) -> _InThisProcess:
        """This process's part. One step of the interpreter, so that two threads of a child get the same."""
        return self._processes.setdefault(os.getpid(), _InThisProcess())

    def _open(self) -> _Opened:
        here = self._here
        with here.lock:
            if self._is_closed:
                raise DatabaseClosed("this BlockingDatabase is closed")
            if here.opened is None:
                here.opened = self._connect()
            return here.opened

    def _connect(self) -> _Opened:
        target = self._target
        try:
            pooler = target.availability.pooler or _find_pooler(target.conninfo)
        except psycopg.Error as error:
            raise target.failed(error) from error
        session = target.behind(pooler)
        pool = BlockingPool(target, session)
        pool.open()
        weakref.finalize(self, _close_at_exit, pool, os.getpid())
        return _Opened(pool, session)


def _find_pooler(conninfo: str) -> PoolerMode:
    """In a thread of its own, since the caller's may run an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(find_pooler(conninfo))).result()


@dataclass(frozen=True, slots=True)
class BlockingTransaction:
    """Statements that are committed together. `connection` is for what is no Statement, such as COPY."""

    connection: BlockingPooledConnection
    _pool: BlockingPool = field(repr=False)

    def run(self, statement: Statement[T]) -> list[T]:
        with translated(statement.name, statement.schema):
            rows = self._pool.send(self.connection, *statement.encoded())
        return statement.results(rows)

    def run_one(self, statement: Statement[T]) -> T:
        return the_one(statement, self.run(statement))


def _prepare(connection: psycopg.Connection[TupleRow], opening: bytes) -> None:
    try:
        connection.execute(opening)
    except BaseException:
        connection.close()
        raise


def _close_at_exit(pool: BlockingPool, pid: int) -> None:
    """For a program that never closed it; not in a forked child, which does not own the connections."""
    if os.getpid() == pid:
        pool.close()
