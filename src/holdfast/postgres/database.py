"""Holdfast's own connections for an event loop: statements in a transaction of their own or together."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

import psycopg
from psycopg.rows import TupleRow

from holdfast.errors import ConnectionFailed, DatabaseClosed
from holdfast.postgres.availability import CHECK_SECONDS, Availability
from holdfast.postgres.connection_target import ConnectionTarget, dedicated
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.pool import Pool
from holdfast.postgres.pooled_connection import PooledConnection
from holdfast.postgres.pooler_detection import PoolerMode, find_pooler
from holdfast.postgres.reply_timeouts import replies_within
from holdfast.postgres.rows import the_one
from holdfast.postgres.session_settings import Isolation, SessionSettings
from holdfast.postgres.statement import Statement
from holdfast.postgres.statement_retries import Tries
from holdfast.postgres.translate import translated
from holdfast.postgres.whole_transaction import WholeTransaction

T = TypeVar("T")

_NOT_OPEN = "this Database is not open: it serves inside its `async with`"


class Database:
    """Connections to one database, for one event loop.

    async with Database("postgresql://localhost/shop") as database:
        jobs = await database.run(statement)
    """

    pooler: PoolerMode
    """What sits between us and Postgres; known once it is open."""

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
        self._chosen: SessionSettings | None = None
        self._pool: Pool | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, find out what is in between, start the pool. Fails if the database cannot be reached."""
        target = self._target
        try:
            self.pooler = target.availability.pooler or await find_pooler(target.conninfo)
        except psycopg.Error as error:
            raise target.failed(error) from error
        self._chosen = target.behind(self.pooler)
        pool = Pool(target, self._chosen)
        await pool.open()
        self._pool = pool

    async def close(self) -> None:
        """New requests fail from now on; a connection that is lent out is closed when it comes back."""
        if self._pool:
            await self._pool.close()

    async def run(self, statement: Statement[T]) -> list[T]:
        """Run a statement in a transaction of its own, again if that is safe."""
        if self._session.needs_transactions:
            async with self.transaction() as transaction:
                return await transaction.run(statement)
        pool = self._opened
        tries = Tries(statement)
        while True:
            try:
                connection = pool.take_at_once() or await pool.take()
                try:
                    rows = await pool.send(connection, *statement.encoded())
                finally:
                    pool.give_back(connection)
                return statement.results(rows)
            except psycopg.Error as error:
                wait = tries.wait_after(error)
            await asyncio.sleep(wait)

    def no_answer(self, seconds: float) -> ConnectionFailed | TimeoutError:
        """What a caller says that has stopped waiting for an answer after so long: the server's reason while
        no connection can be made.
        """
        return self._target.availability.no_answer(seconds)

    async def run_one(self, statement: Statement[T]) -> T:
        """Like `run`, for a statement that answers with exactly one row."""
        return the_one(statement, await self.run(statement))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["Transaction"]:
        """Several statements in one commit. Nothing is repeated here: only the caller knows the whole."""
        pool = self._opened
        async with pool.lend() as connection:
            with translated("begin"):
                await pool.send(connection, self._session.begin)
            try:
                yield Transaction(connection, pool)
            except BaseException:
                await pool.roll_back(connection)
                raise
            if (failed := pool.core.why_not_commit(connection)) is not None:
                await pool.roll_back(connection)
                raise failed
            with translated("commit"):
                await pool.send(connection, b"commit")

    def whole_transaction(self, isolation: Isolation | None = None) -> WholeTransaction:
        """One around code that we do not know, which must neither commit nor roll back."""
        return WholeTransaction(self._opened, self._session, isolation)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[TupleRow]]:
        """A connection out of the pool, in autocommit. Its errors are psycopg's, its waits have no bound."""
        async with self._opened.lend() as connection:
            yield connection

    async def dedicated(self, *, purpose: str) -> psycopg.AsyncConnection[TupleRow]:
        """A connection outside the pool, which the caller closes: such as for listening or keeping leases.

        Unlike pooled ones it may sit in a transaction for as long as it likes.
        """
        session = dedicated(self._session)
        try:
            connection = await psycopg.AsyncConnection.connect(
                self.dsn.conninfo(purpose), autocommit=True, prepare_threshold=session.prepare_threshold
            )
            if session.opening:
                await _prepare(connection, session.opening)
        except psycopg.Error as error:
            raise self._target.failed(error) from error
        return connection

    @property
    def _opened(self) -> Pool:
        if self._pool is None:
            raise DatabaseClosed(_NOT_OPEN)
        return self._pool

    @property
    def _session(self) -> SessionSettings:
        if self._chosen is None:
            raise DatabaseClosed(_NOT_OPEN)
        return self._chosen


async def _prepare(connection: psycopg.AsyncConnection[TupleRow], opening: bytes) -> None:
    try:
        with replies_within(connection, CHECK_SECONDS):
            await connection.execute(opening)
    except BaseException:
        await connection.close()
        raise


@dataclass(frozen=True, slots=True)
class Transaction:
    """Statements that are committed together. `connection` is for what is no Statement, such as COPY."""

    connection: PooledConnection
    _pool: Pool = field(repr=False)

    async def run(self, statement: Statement[T]) -> list[T]:
        return statement.results(await self._rows(statement))

    async def run_one(self, statement: Statement[T]) -> T:
        return the_one(statement, await self.run(statement))

    async def run_each(self, statements: Iterable[Statement[T]]) -> AsyncGenerator[list[T], None]:
        """One after the other, each with its answer. While Postgres works on one of them the next is made,
        and the reader of the answers works on the one before.
        """
        sent: tuple[Statement[T], asyncio.Task[list[TupleRow]]] | None = None
        try:
            for statement in statements:
                answered = sent and (sent[0], await sent[1])
                sent = statement, asyncio.create_task(self._rows(statement))
                await asyncio.sleep(0)  # it is on its way, before anything is made of the rows
                if answered:
                    yield answered[0].results(answered[1])
            if sent:
                yield sent[0].results(await sent[1])
        finally:
            if sent and not sent[1].done():
                sent[1].cancel()
                await asyncio.wait([sent[1]])

    async def _rows(self, statement: Statement[T]) -> list[TupleRow]:
        with translated(statement.name, statement.schema):
            return await self._pool.send(self.connection, *statement.encoded())
