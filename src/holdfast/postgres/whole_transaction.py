"""A transaction on a connection of ours around code that we do not know, such as a handler's.

Two round trips of its own: the savepoint that tells whether that code has ended the transaction (see
`borrowed.savepoint`) goes with the begin, and the last statement goes with the commit.
"""

from functools import cache
from typing import Final

import psycopg
from psycopg import sql
from psycopg.pq import PipelineStatus, TransactionStatus

from holdfast.errors import InvalidInput, TransactionEnded
from holdfast.postgres.pool import Pool
from holdfast.postgres.pooled_connection import PooledConnection
from holdfast.postgres.session_settings import SessionSettings
from holdfast.postgres.sqlstate import NO_SAVEPOINT, NO_TRANSACTION, NOT_PREPARED
from holdfast.postgres.statement import Statement
from holdfast.postgres.translate import translate, translated

_SAVEPOINT: Final = b"holdfast_block"
# A plan that is made while a table is small must not read it from end to end when it has grown. Only for our
# statement: what is deferred to the commit, such as a trigger of the user's, is planned as it always is.
_AS_WRITTEN: Final = b"set local enable_seqscan = off"
_AS_BEFORE: Final = b"set local enable_seqscan to default"


class WholeTransaction:
    """`begin`, then once `commit` or `roll_back`, which give the connection back."""

    def __init__(self, pool: Pool, session: SessionSettings) -> None:
        self._pool = pool
        self._session = session
        self._connection: PooledConnection | None = None

    async def begin(self) -> PooledConnection:
        pool = self._pool
        connection = pool.take_at_once() or await pool.take()
        try:
            with translated("begin"):
                await pool.send(connection, _begin(self._session))
        except BaseException:
            pool.give_back(connection)
            raise
        connection.enter_block()
        self._connection = connection
        return connection

    async def commit(self, last: Statement[object]) -> None:
        """Run `last` and commit, both or neither: `last` must fail if nothing may be committed, since its
        answer is not waited for.
        """
        connection, is_alone = self._taken()
        try:
            self._check(connection, is_alone=is_alone)
            await self._send(connection, last)
        except BaseException:
            await self._pool.roll_back(connection)
            raise
        finally:
            self._give_back(connection, is_alone=is_alone)

    async def roll_back(self, error: BaseException) -> None:
        """After `error`. Raises TransactionEnded from it if the transaction was ended before."""
        connection, is_alone = self._taken()
        try:
            # A cancelled task leaves at once: it sends no more questions.
            is_gone = isinstance(error, Exception) and await self._is_gone(connection)
            await self._pool.roll_back(connection)
        finally:
            self._give_back(connection, is_alone=is_alone)
        if is_gone:
            raise TransactionEnded from error

    def _taken(self) -> tuple[PooledConnection, bool]:
        connection, self._connection = self._connection, None
        assert connection is not None, "begun once, and ended once"  # noqa: S101  # a mistake of this package
        return connection, connection.leave_block()

    def _give_back(self, connection: PooledConnection, *, is_alone: bool) -> None:
        """Closed if a task still has a `transaction()` on it, which would end in the next one's block."""
        if not is_alone:
            connection.pgconn.finish()
        self._pool.give_back(connection)

    def _check(self, connection: PooledConnection, *, is_alone: bool) -> None:
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
                await self._pool.send(connection, _commit(_written_out(connection, last)))
            elif name is not None:
                await self._pool.send(connection, _commit(_execute(connection, name, last)))
            else:
                # A name of its own for every try: after an error it is unknown whether this was prepared.
                name = connection.new_name()
                prepare = b"prepare %b as %b" % (name, text)
                await self._pool.send(connection, _commit(prepare, _execute(connection, name, last)))
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
def _begin(session: SessionSettings) -> bytes:
    return session.begin + b"; savepoint " + _SAVEPOINT


def _commit(*commands: bytes) -> bytes:
    """One text without parameters is one round trip: an error ends it, and the commit is not reached."""
    return b"; ".join((b"release savepoint " + _SAVEPOINT, _AS_WRITTEN, *commands, _AS_BEFORE, b"commit"))


def _execute(connection: PooledConnection, name: bytes, statement: Statement[object]) -> bytes:
    values = statement.encoded()[1]
    return b"execute %b(%b)" % (name, b", ".join([_literal(connection, value) for value in values]))


def _written_out(connection: PooledConnection, statement: Statement[object]) -> bytes:
    """With its parameters in its text."""
    text = psycopg.AsyncClientCursor(connection).mogrify(statement.text, statement.params)
    return text.encode(connection.info.encoding)


def _literal(connection: PooledConnection, value: object) -> bytes:
    if value is None:
        return b"null"
    return b"%d" % value if type(value) is int else sql.Literal(value).as_bytes(connection)
