"""What an error of Postgres means: the only file that knows SQLSTATEs, as a pure table with the reasons.

For the sender of a statement `of_code` answers three questions: may it be sent again, is it known whether it
took effect, and is the data at fault or the server. An outage must never be taken for a bad row.
A code that means something more to other modules, such as a table that is not there, has a name.
Imports no driver: statements run on connections of drivers other than psycopg, too.
"""

from dataclasses import dataclass
from enum import Enum, auto

NO_TABLE = frozenset({"3F000", "42P01"})
"""A schema or a table is not there; Postgres says 42P01 also when the whole schema is missing."""

NO_COLUMN = "42703"

UNKNOWN_NAME = frozenset({*NO_TABLE, NO_COLUMN, "42704", "42883"})
"""A statement names what is not there, be it a type (42704) or a function (42883): as in a database that was
never migrated.
"""

FORBIDDEN = "42501"
"""The role may not do it."""

LOCKED_OUT = frozenset({"55P03", "40P01"})
"""A lock was not available in time, or only by a deadlock: another transaction holds it."""

NO_TRANSACTION = "25P01"
"""What needs a transaction found none: the connection is in autocommit, or its transaction was ended."""

NO_SAVEPOINT = "3B001"
"""There is no savepoint of that name: its transaction was ended, and another was begun."""

NOT_PREPARED = "26000"
"""There is no prepared statement of that name in this session."""

TOO_LATE_FOR_THE_TRANSACTION = "25001"
"""What has to come before anything else in a transaction, such as its isolation level, came later."""

CANCELLED = "57014"
"""The statement was cancelled: by its timeout, or by an operator."""

INVALID_TEXT = "22P02"
"""A text is not a value of the type that it is cast to."""


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


def of_code(code: str) -> ServerFailure:
    return _BY_CODE.get(code) or _BY_CLASS.get(code[:2]) or REFUSED
