"""A transaction on a connection of ours around code that we do not know, such as a handler's.

Two round trips of its own: the savepoint that tells whether that code has ended the transaction (see
`borrowed.savepoint`) goes with the begin, and the last statement goes with the commit.
"""

import asyncio
from contextlib import suppress
from functools import cache
from typing import Final

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from holdfast.errors import InvalidInput, TransactionEnded
from holdfast.postgres.borrowed.outage import says_outage
from holdfast.postgres.lent_connection import LentConnection
from holdfast.postgres.pool import Pool
from holdfast.postgres.pooled_connection import PooledConnection
from holdfast.postgres.session_settings import Isolation, SessionSettings
from holdfast.postgres.sqlstate import NO_SAVEPOINT, NO_TRANSACTION, NOT_PREPARED
from holdfast.postgres.statement import Statement
from holdfast.postgres.translate import translate, translated

_SAVEPOINT: Final = b"holdfast_block"
# A plan that is made while a table is small must not read it from end to end when it has grown. Only for our
# statement: what is deferred to the commit, such as a trigger of the user's, is planned as it always is.
_AS_WRITTEN: Final = b"set local enable_seqscan = off"
_AS_BEFORE: Final = b"set local enable_seqscan to default"

_PATIENCE: Final = 5.0
_BUSY: Final = (
    "a `copy()`, a `stream()` or a statement of another task is still under way on this connection at the "
    "end of the block"
)


class WholeTransaction:
    """`begin`, then once `commit` or `roll_back`, which give the connection back."""

    def __init__(self, pool: Pool, session: SessionSettings, isolation: Isolation | None = None) -> None:
        self._pool = pool
        self._session = session
        self._isolation: Isolation | None = isolation
        self._begun: tuple[PooledConnection, LentConnection] | None = None

    async def begin(self) -> LentConnection:
        pool = self._pool
        connection = pool.take_at_once() or await pool.take()
        try:
            with translated("begin"):
                await pool.command(connection, _begin(self._session, self._isolation))
        except BaseException:
            pool.give_back(connection)
            raise
        lent = LentConnection(connection)
        lent.enter_block()
        self._begun = connection, lent
        return lent

    async def commit(self, last: Statement[object]) -> None:
        """Run `last` and commit, both or neither: `last` must fail if nothing may be committed, since its
        answer is not waited for.
        """
        connection, lent = self._taken()
        try:
            is_at_rest = await self._is_at_rest(connection)
            self._check(connection, is_alone=lent.end(), is_at_rest=is_at_rest)
            await self._send(connection, last)
        except BaseException:
            if not await self._is_at_rest(connection, is_leaving=True):
                connection.pgconn.finish()  # cancelled while it waited: a rollback would wait for the same
            lent.end()
            await self._pool.roll_back(connection)
            raise
        finally:
            self._give_back(connection, lent)

    async def roll_back(self, error: BaseException) -> bool:
        """After `error`. Whether the connection or the server failed, so that nothing could be committed.
        Raises TransactionEnded from it if the transaction was ended before.
        """
        connection, lent = self._taken()
        is_gone = is_lost = False
        try:
            # A cancelled task leaves at once: it sends no more questions.
            is_leaving = not isinstance(error, Exception)
            if not await self._is_at_rest(connection, is_leaving=is_leaving):
                connection.pgconn.finish()  # which rolls back
            elif not is_leaving:
                is_gone = await self._is_gone(connection)
                is_lost = lent.broken or says_outage(error)
            lent.end()
            await self._pool.roll_back(connection)
        finally:
            self._give_back(connection, lent)
        if is_gone:
            raise TransactionEnded from error
        return is_lost

    @property
    def reply_seconds(self) -> float:
        """How long a statement of ours may take; zero means for ever."""
        return self._pool.reply_seconds

    def _taken(self) -> tuple[PooledConnection, LentConnection]:
        begun, self._begun = self._begun, None
        assert begun is not None, "begun once, and ended once"  # noqa: S101  # a mistake of this package
        return begun

    def _give_back(self, connection: PooledConnection, lent: LentConnection) -> None:
        """Closed if a task still has a `transaction()` on it, which it would not find ended."""
        if not lent.end():
            connection.pgconn.finish()
        lent.give_up()
        self._pool.give_back(connection)

    async def _is_at_rest(self, connection: PooledConnection, *, is_leaving: bool = False) -> bool:
        """Whether nothing is under way. A statement of another task is waited for, for some seconds; a
        `copy()` or a `stream()` that was left open never ends, and the latter keeps psycopg's lock.
        """
        libpq = connection.pgconn
        if (
            libpq.transaction_status != TransactionStatus.ACTIVE
            or libpq.pipeline_status != PipelineStatus.OFF
        ):
            return True
        if not is_leaving:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self.reply_seconds or _PATIENCE, _PATIENCE)), connection.lock:
                    pass
        return libpq.transaction_status != TransactionStatus.ACTIVE

    def _check(self, connection: PooledConnection, *, is_alone: bool, is_at_rest: bool) -> None:
        if not is_at_rest:
            connection.pgconn.finish()
            raise InvalidInput(_BUSY)
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            raise TransactionEnded
        if connection.pgconn.pipeline_status != PipelineStatus.OFF:
            # What is sent in it is answered later: the commit would be taken for done.
            raise InvalidInput("a `pipeline()` of this connection is still open at the end of the block")
        if (failed := self._pool.core.why_not_commit(connection)) is not None:
            raise failed
        if not is_alone:
            raise InvalidInput("a `transaction()` of this connection is still open at the end of the block")

    async def _send(self, connection: PooledConnection, last: Statement[object]) -> None:
        text = last.encoded()[0]
        name = connection.prepared_as(text)
        try:
            if not self._session.pooler.keeps_sessions:
                await self._pool.command(connection, _commit(_written_out(connection, last)))
            elif name is not None:
                await self._pool.command(connection, _commit(_execute(connection, name, last)))
            else:
                # A name of its own for every try: after an error it is unknown whether this was prepared.
                name = connection.new_name()
                prepare = b"prepare %b as %b" % (name, text)
                await self._pool.command(connection, _commit(prepare, _execute(connection, name, last)))
                connection.note_prepared(text, name)
        except psycopg.Error as error:
            if error.sqlstate in (NO_TRANSACTION, NO_SAVEPOINT):
                raise TransactionEnded from error
            if error.sqlstate == NOT_PREPARED:  # the user's code has dropped it, unseen by psycopg
                connection.pgconn.finish()
            raise translate(error, "commit", last.schema) from error

    async def _is_gone(self, connection: PooledConnection) -> bool:
        """Asked by the one statement that works after an error, too."""
        if connection.pgconn.transaction_status == TransactionStatus.IDLE:
            return True
        try:
            await self._pool.send(connection, b"rollback to savepoint " + _SAVEPOINT)
        except psycopg.Error as error:
            return error.sqlstate in (NO_TRANSACTION, NO_SAVEPOINT)
        return False


@cache
def _begin(session: SessionSettings, isolation: Isolation | None) -> bytes:
    return session.begin_at(isolation) + b"; savepoint " + _SAVEPOINT


def _commit(*commands: bytes) -> bytes:
    """One text without parameters is one round trip: an error ends it, and the commit is not reached."""
    return b"; ".join((b"release savepoint " + _SAVEPOINT, _AS_WRITTEN, *commands, _AS_BEFORE, b"commit"))


def _execute(connection: PooledConnection, name: bytes, statement: Statement[object]) -> bytes:
    values = statement.encoded()[1]
    return b"execute %b(%b)" % (name, b", ".join([connection.literal(value) for value in values]))


def _written_out(connection: PooledConnection, statement: Statement[object]) -> bytes:
    """With its parameters in its text."""
    text = psycopg.AsyncClientCursor(connection).mogrify(statement.text, statement.params)
    return text.encode(connection.info.encoding)
