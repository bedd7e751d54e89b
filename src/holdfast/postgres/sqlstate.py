"""What an error of Postgres means for the sender of the statement: a pure table, with the reasons.

Three questions are answered: may it be sent again, is it known whether it took effect, and is the data at
fault or the server. The last one is asked only here: an outage must never be taken for a bad row.
"""

from dataclasses import dataclass
from enum import Enum, auto

import psycopg


class Meaning(Enum):
    TRANSIENT = auto()
    """The server or the way to it failed, not the statement."""
    CONFLICT = auto()
    """Rolled back in favour of another transaction."""
    UNABLE = auto()
    """The server did not carry it out this time, and may the next time. Not sent again by itself: an
    operator wanted it to end, or it took too long.
    """
    DATA = auto()
    """A value in it is refused: the same statement would fail again, on any server."""
    FATAL = auto()
    """The same statement would fail again until an operator changes something, such as a right."""


@dataclass(frozen=True, slots=True)
class ServerFailure:
    meaning: Meaning
    reason: str
    is_outcome_unknown: bool = False
    """The statement may have taken effect although no reply came."""
    is_session_over: bool = False
    """The connection cannot be used any more, or should not be."""
    is_wrong_server: bool = False
    """So are the other connections that were made before it was noticed."""


_UNKNOWN = {"is_outcome_unknown": True, "is_session_over": True}

LOST = ServerFailure(Meaning.TRANSIENT, "the connection was cut", **_UNKNOWN)
REFUSED = ServerFailure(Meaning.FATAL, "refused")
BAD_DATA = ServerFailure(Meaning.DATA, "a value is refused")

_BY_CODE = {
    "40001": ServerFailure(Meaning.CONFLICT, "serialization failure"),
    "40P01": ServerFailure(Meaning.CONFLICT, "deadlock"),
    "55P03": ServerFailure(Meaning.CONFLICT, "a lock was not available in time"),
    # Among the rollbacks of class 40, the only one after which the statement may have taken effect.
    "40003": ServerFailure(Meaning.TRANSIENT, "the server does not know whether it completed", **_UNKNOWN),
    # Termination can arrive while a commit waits for its standby: committed here, and said to have failed.
    "57P01": ServerFailure(Meaning.TRANSIENT, "terminated by an administrator or a shutdown", **_UNKNOWN),
    "57P02": ServerFailure(Meaning.TRANSIENT, "another process of the server crashed", **_UNKNOWN),
    # Only said in place of a session, so nothing was sent.
    "57P03": ServerFailure(
        Meaning.TRANSIENT, "the server is starting up or shutting down", is_session_over=True
    ),
    # The server ends sessions that wait for a statement: whatever was sent afterwards was never read.
    "57P05": ServerFailure(Meaning.TRANSIENT, "the session was idle for too long", is_session_over=True),
    "25P03": ServerFailure(Meaning.TRANSIENT, "the transaction was idle for too long", is_session_over=True),
    "25P04": ServerFailure(Meaning.UNABLE, "the transaction took too long", is_session_over=True),
    "57P04": ServerFailure(Meaning.FATAL, "the database was dropped", is_session_over=True),
    # After a failover the old primary, or a standby, answers: a new connection may find the new one.
    "25006": ServerFailure(
        Meaning.TRANSIENT, "the server is read-only", is_session_over=True, is_wrong_server=True
    ),
}
_BY_CLASS = {
    # 08P01 is also what pgbouncer says for whatever goes wrong behind it.
    "08": LOST,
    "40": ServerFailure(Meaning.CONFLICT, "rolled back by the server"),
    # Disk, memory, connections: the statement was rolled back, and room may come.
    "53": ServerFailure(Meaning.TRANSIENT, "the server is short of resources"),
    # By a timeout, by an operator, by a standby's conflict with replay.
    "57": ServerFailure(Meaning.UNABLE, "cancelled"),
    # The disk or the operating system.
    "58": ServerFailure(Meaning.UNABLE, "the server met a system error"),
    "22": BAD_DATA,
    "23": BAD_DATA,
    # A limit of Postgres's own, such as the size of an index entry: unlike class 53, no room will come.
    "54": BAD_DATA,
}


def is_data_code(code: str) -> bool:
    """Whether a code says that a value is refused, of an error of any library."""
    return code not in _BY_CODE and _BY_CLASS.get(code[:2]) is BAD_DATA


def meaning(error: psycopg.Error) -> ServerFailure:
    """What an error says. One without a code comes from this side: a broken socket, or a wrong call."""
    code = error.sqlstate
    if code is not None:
        return _BY_CODE.get(code) or _BY_CLASS.get(code[:2]) or REFUSED
    if isinstance(error, (psycopg.DataError, psycopg.ProgrammingError)):
        return BAD_DATA  # psycopg itself could not encode it
    return LOST if isinstance(error, psycopg.OperationalError) else REFUSED
