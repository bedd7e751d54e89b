"""Whether a transaction is, at its end, the one that was begun: a savepoint of its beginning is gone if not.

Only the server can tell. A commit may be sent as text, and some libraries silently begin another
transaction after it.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any

from holdfast.errors import TransactionEnded, WrongConnection
from holdfast.postgres.borrowed.driver_errors import told
from holdfast.postgres.borrowed.kinds import awaited, blocking, described
from holdfast.postgres.borrowed.outage import is_outage_of, says_outage
from holdfast.postgres.borrowed.run import run_on, run_on_blocking
from holdfast.postgres.sqlstate import NO_SAVEPOINT, NO_TRANSACTION
from holdfast.postgres.statement import Statement

_NAME = "holdfast_block"


@asynccontextmanager
async def kept_whole(connection: Any, on_outage: Callable[[], None]) -> AsyncIterator[None]:
    """TransactionEnded when the block has ended the transaction that is open on `connection`, by a commit or
    by a rollback; WrongConnection, before the block, when none is open: the connection is in autocommit.
    `on_outage` is called if the block has raised and its connection or its server failed.
    """
    # psycopg's own block also refuses commit() and rollback() on the connection, in its own words.
    is_psycopg = awaited(connection) == "psycopg"
    savepoint = connection.transaction(_NAME) if is_psycopg else _Savepoint(connection)
    with _autocommit_refused(connection):
        await savepoint.__aenter__()
    try:
        yield
    except BaseException as error:
        # A cancelled task leaves at once: it sends no more questions.
        answer = await _asked(connection) if isinstance(error, Exception) else None
        is_gone = answer is not None and _says_gone(answer)
        if not is_gone and _is_outage(error, answer):
            on_outage()
        await savepoint.__aexit__(type(error), error, error.__traceback__)
        if is_gone:
            raise TransactionEnded from error
        raise
    with _ended():
        await savepoint.__aexit__(None, None, None)


@contextmanager
def kept_whole_blocking(connection: Any, on_outage: Callable[[], None]) -> Iterator[None]:
    """The same, blocking."""
    is_psycopg = blocking(connection) == "psycopg"
    savepoint = connection.transaction(_NAME) if is_psycopg else _BlockingSavepoint(connection)
    with _autocommit_refused(connection):
        savepoint.__enter__()
    try:
        yield
    except BaseException as error:
        answer = _asked_blocking(connection) if isinstance(error, Exception) else None
        is_gone = answer is not None and _says_gone(answer)
        if not is_gone and _is_outage(error, answer):
            on_outage()
        savepoint.__exit__(type(error), error, error.__traceback__)
        if is_gone:
            raise TransactionEnded from error
        raise
    with _ended():
        savepoint.__exit__(None, None, None)


class _Savepoint:
    """Left alone by an error: the code that began the transaction rolls back all of it."""

    def __init__(self, connection: object) -> None:
        self._connection = connection

    async def __aenter__(self) -> None:
        await run_on(self._connection, _sent("savepoint"))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await run_on(self._connection, _sent("release savepoint"))


class _BlockingSavepoint:
    def __init__(self, connection: object) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        run_on_blocking(self._connection, _sent("savepoint"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            run_on_blocking(self._connection, _sent("release savepoint"))


async def _asked(connection: object) -> Exception | None:
    """How the one statement fails that works after an error, too; all is rolled back afterwards anyway."""
    try:
        await run_on(connection, _sent("rollback to savepoint"))
    except Exception as error:  # noqa: BLE001  # whatever it is, the block's own error tells more
        return error
    return None


def _asked_blocking(connection: object) -> Exception | None:
    try:
        run_on_blocking(connection, _sent("rollback to savepoint"))
    except Exception as error:  # noqa: BLE001  # as above
        return error
    return None


def _is_outage(error: BaseException, answer: Exception | None) -> bool:
    """Whether a block raised `error` because its server failed, or its connection: that is what the `answer`
    to a later statement says.
    """
    return says_outage(error) or (answer is not None and is_outage_of(answer))


@contextmanager
def _autocommit_refused(connection: object) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if told(error)[0] == NO_TRANSACTION:
            raise WrongConnection(
                f"{described(connection)} is in autocommit, where nothing can be rolled back: pass one that "
                'is not, such as of an engine without isolation_level="AUTOCOMMIT"'
            ) from error
        raise


@contextmanager
def _ended() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if _says_gone(error):
            raise TransactionEnded from error
        raise


def _says_gone(error: BaseException) -> bool:
    return told(error)[0] in (NO_TRANSACTION, NO_SAVEPOINT)


def _sent(verb: str) -> Statement[None]:
    return Statement(verb, f"{verb} {_NAME}", {}, _no_row)


def _no_row(*row: object) -> None:
    """Such statements have none."""
