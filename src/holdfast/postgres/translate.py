"""Errors of psycopg as Holdfast's own, with the code of Postgres kept and no secret repeated."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from holdfast.errors import (
    Conflict,
    ConnectionFailed,
    ConnectionLost,
    DatabaseError,
    DataRefused,
    HoldfastError,
    ServerUnable,
    StatementFailed,
)
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.schema import Schema, schema_error
from holdfast.postgres.sqlstate import BAD_DATA, LOST, REFUSED, Meaning, ServerFailure, of_code

_BY_MEANING: dict[Meaning, type[DatabaseError]] = {
    Meaning.TRANSIENT: ServerUnable,
    Meaning.CONFLICT: Conflict,
    Meaning.UNABLE: ServerUnable,
    Meaning.DATA: DataRefused,
    Meaning.FATAL: StatementFailed,
}

_TRIED = re.compile(
    r"^- host: '(.*?)', port: '(.*?)', hostaddr: .*?: (?:connection failed: )?(.*)$", re.MULTILINE
)


class NoReply(psycopg.OperationalError):
    """We stopped waiting and cut the connection. `option` is what sets the bound, if one does."""

    def __init__(self, seconds: float, option: str = "") -> None:
        super().__init__(f"no reply within {seconds:g} s" + (f" ({option})" if option else ""))


def meaning(error: psycopg.Error) -> ServerFailure:
    """What an error says. One without a code comes from this side: a broken socket, or a wrong call."""
    if error.sqlstate is not None:
        return of_code(error.sqlstate)
    if isinstance(error, (psycopg.DataError, psycopg.ProgrammingError)):
        return BAD_DATA  # psycopg itself could not encode it
    return LOST if isinstance(error, psycopg.OperationalError) else REFUSED


def translate(error: psycopg.Error, doing: str, schema: Schema | None = None) -> DatabaseError:
    """What the failure of something that was sent means to its caller; `schema` is the one that our
    statement uses.
    """
    failure = meaning(error)
    if failure.is_outcome_unknown:
        return ConnectionLost(
            f"{doing}: {failure.reason} before the reply came, so whether it took effect is unknown "
            f"({one_line(error)})",
            sqlstate=error.sqlstate,
        )
    reason = f"{doing}: {one_line(error)}"
    if schema is not None and (told := schema_error(error.sqlstate, reason, schema)):
        return told
    return _BY_MEANING[failure.meaning](reason, sqlstate=error.sqlstate)


def connection_failed(error: psycopg.Error, dsn: Dsn) -> ConnectionFailed:
    return ConnectionFailed(
        f"cannot connect to {dsn.where}: {dsn.without_secrets(one_line(error))}", sqlstate=error.sqlstate
    )


@contextmanager
def translated(doing: str, schema: Schema | None = None) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, doing, schema) from error


def is_datas_fault(error: BaseException) -> bool:
    """Whether what was to be written is at fault, and neither the server nor the way to it: Postgres refuses
    a value, or it could not even be encoded for sending.
    """
    is_unsendable = isinstance(error, (AttributeError, TypeError, ValueError, OverflowError))
    return isinstance(error, DataRefused) or (is_unsendable and not isinstance(error, HoldfastError))


def one_line(error: BaseException) -> str:
    """The first line, because later lines of Postgres's messages are positions and hints. If several hosts
    failed, psycopg's first line has only the last one's reason: here each host has its own.
    """
    text = str(error).strip() or type(error).__name__
    hosts = [f"{host}:{port}: {reason}" for host, port, reason in _TRIED.findall(text)]
    return "; ".join(dict.fromkeys(hosts)) or text.splitlines()[0]
