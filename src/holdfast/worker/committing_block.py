"""A block that commits when it ends, on a connection of Holdfast or on one that the handler passes, in the
way of that connection's library. The block is never part of an outer transaction, which could still roll
back.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from contextvars import ContextVar
from typing import Any

from psycopg.pq import TransactionStatus

from holdfast.errors import WrongConnection
from holdfast.postgres.borrowed import kept_whole, kept_whole_blocking
from holdfast.postgres.borrowed.kinds import awaited, blocking, closed, described
from holdfast.postgres.database import Database
from holdfast.postgres.lent_connection import LentConnection

_TAKES = "an AsyncSession or AsyncConnection of SQLAlchemy, or a connection of psycopg or asyncpg"
_TAKES_BLOCKING = "a Session or Connection of SQLAlchemy, a connection of psycopg, or Django's"


@asynccontextmanager
async def committing(
    connection: Any,
    database: Database,
    last: Callable[[Any], Awaitable[None]],
    on_outage: Callable[[], None],
) -> AsyncIterator[Any]:
    """Yields the connection, or one of `database` if none is given. When the block ends, `last` writes and
    the transaction commits; after an error it rolls back. `on_outage` is called if the block has raised and
    its connection or its server failed.
    """
    async with _begun(connection) if connection is not None else _ours(database) as begun:
        async with kept_whole(begun, on_outage):
            with _open_block():
                yield begun
        await last(begun)


@contextmanager
def committing_blocking(
    connection: Any, last: Callable[[Any], None], on_outage: Callable[[], None]
) -> Iterator[Any]:
    """The same for a plain function, on a connection that it passes."""
    with _begun_blocking(connection) as begun:
        with kept_whole_blocking(begun, on_outage), _open_block():
            yield begun
        last(begun)


class OpenBlock:
    """Seen by tasks and threads that are started inside the block as well, and closed for all at once."""

    __slots__ = ("_before", "is_open")

    def __init__(self) -> None:
        self._before = _block.get()
        self.is_open = True
        _block.set(self)

    def close(self) -> None:
        self.is_open = False
        _block.set(self._before)


_block: ContextVar[OpenBlock | None] = ContextVar("holdfast_committing_block", default=None)


def is_inside_committing_block() -> bool:
    """Whether this code runs inside a block that commits when it ends, of a job or of a flow."""
    block = _block.get()
    return block is not None and block.is_open


@contextmanager
def _open_block() -> Iterator[None]:
    block = OpenBlock()
    try:
        yield
    finally:
        block.close()


@asynccontextmanager
async def _ours(database: Database) -> AsyncIterator[Any]:
    with ExitStack() as afterwards:
        async with database.transaction() as transaction:
            lent = LentConnection(transaction.connection)
            afterwards.callback(lent.give_up)
            try:
                yield lent
            finally:
                lent.end()


def _begun(connection: Any) -> AbstractAsyncContextManager[Any]:
    try:
        library = awaited(connection)
    except WrongConnection as error:
        raise WrongConnection(f"an async block takes {_TAKES}, not {described(connection)}") from error
    match library:
        case "asyncpg":
            if connection.is_in_transaction():
                raise _in_transaction(connection)
            return _with(connection, connection.transaction())
        case "psycopg":
            return (
                _ending(connection) if _has_begun(connection) else _with(connection, connection.transaction())
            )
        case "sqlalchemy":
            _check_bind(connection)
            return _ending(connection)


def _begun_blocking(connection: Any) -> AbstractContextManager[Any]:
    try:
        library = blocking(connection)
    except WrongConnection as error:
        raise WrongConnection(
            f"a plain block takes {_TAKES_BLOCKING}, not {described(connection)}"
        ) from error
    match library:
        case "django":
            return _with_blocking(connection, _atomic(connection))
        case "psycopg":
            if _has_begun(connection):
                return _ending_blocking(connection)
            return _with_blocking(connection, connection.transaction())
        case "sqlalchemy":
            _check_bind(connection)
            return _ending_blocking(connection)


@asynccontextmanager
async def _with(connection: Any, transaction: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
    async with transaction:
        yield connection


@contextmanager
def _with_blocking(connection: Any, transaction: AbstractContextManager[Any]) -> Iterator[Any]:
    with transaction:
        yield connection


@asynccontextmanager
async def _ending(connection: Any) -> AsyncIterator[Any]:
    """Ends the transaction that is open, or that the next statement opens."""
    try:
        yield connection
    except BaseException:
        await connection.rollback()
        raise
    await connection.commit()


@contextmanager
def _ending_blocking(connection: Any) -> Iterator[Any]:
    try:
        yield connection
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _has_begun(connection: Any) -> bool:
    """Whether psycopg has begun a transaction by itself, for a statement before the block. The block ends
    that one. A transaction that the user's code is going to end is refused.
    """
    if connection.closed and not connection.broken:
        raise closed(connection)
    if connection.info.transaction_status is TransactionStatus.IDLE:
        return False
    # How many of its transaction() blocks are open, which psycopg does not tell otherwise.
    if connection.autocommit or connection._num_transactions:  # noqa: SLF001  # see above
        raise _in_transaction(connection)
    return True


def _check_bind(connection: Any) -> None:
    """A session on a connection that is in a transaction does not commit: the code that began it does."""
    bind: Any = connection.get_bind() if hasattr(connection, "get_bind") else None
    if hasattr(bind, "in_transaction") and bind.in_transaction():
        raise _in_transaction(connection)


def _atomic(connection: Any) -> AbstractContextManager[Any]:
    from django.db import transaction

    from holdfast.postgres.borrowed import on_django

    on_django.check(connection)
    if connection.in_atomic_block:
        raise _in_transaction(connection)
    if not connection.get_autocommit():
        raise WrongConnection(
            "Django's autocommit is off here, where atomic() commits nothing: call set_autocommit(True) first"
        )
    atomic: AbstractContextManager[Any] = transaction.atomic(using=connection.alias)
    return atomic


def _in_transaction(connection: object) -> WrongConnection:
    return WrongConnection(
        f"{described(connection)} is in a transaction already: the code that began it could still roll back "
        "what this block reports as committed. Pass a connection that is in no transaction"
    )
