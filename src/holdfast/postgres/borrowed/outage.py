"""Whether an error of any library says that the database is in trouble, and not what was sent to it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.errors import ConnectionLost, DatabaseError, DataRefused, HoldfastError
from holdfast.postgres.borrowed.driver_errors import told
from holdfast.postgres.sqlstate import Meaning, is_data_code, of_code

_DEPTH = 5
# The names that PEP 249 gives to a connection that broke, of whichever library, and asyncpg's for one that
# broke between two of its steps. Errors with a code are judged by it. asyncpg's error for a value that it
# cannot encode is one of these, too, and a ValueError.
_BROKEN = frozenset({"OperationalError", "InterfaceError", "InternalError", "InternalClientError"})
# SQLAlchemy's, for whatever is sent on a connection that it knows to be broken.
_INVALIDATED = "8s2b"


def is_outage_of(error: BaseException) -> bool:
    """Of an error that a statement of ours, or the commit after it, has met on a borrowed connection."""
    if isinstance(error, HoldfastError):
        return False
    code, _ = told(error)
    if code is not None:
        return not is_data_code(code)
    chain = list(_chain(error))
    return any(map(_is_broken, chain)) and not any(isinstance(each, ValueError) for each in chain)


def has_met_outage(error: BaseException) -> bool:
    """Of an error that the begin or the commit of a block has met, on a connection of ours or a borrowed
    one.
    """
    if isinstance(error, DatabaseError):
        return not isinstance(error, DataRefused)
    return is_outage_of(error)


def says_outage(error: BaseException) -> bool:
    """Of an error of the caller's own statement, or of one that followed it: whether its code says that the
    server or the way to it failed.
    """
    code, _ = told(error)
    return code is not None and of_code(code).meaning is Meaning.TRANSIENT


def is_outcome_unknown(error: BaseException) -> bool:
    """Of an error that a commit has met: whether it may have taken effect all the same."""
    match error:
        case HoldfastError():
            return isinstance(error, ConnectionLost)
        case Exception():
            code, _ = told(error)
            return of_code(code).is_outcome_unknown if code is not None else is_outage_of(error)
        case _:  # cancelled
            return True


@contextmanager
def outages_marked() -> Iterator[None]:
    """Around a statement of ours in a transaction of the caller's. The error of its library reaches the
    caller as it is; the mark tells the worker that it is no mistake of the handler's. An earlier error of the
    caller's own may have ended that transaction: so only what says that the server or the connection failed
    is marked.
    """
    try:
        yield
    except Exception as error:
        if says_outage(error) or (told(error)[0] is None and is_outage_of(error)):
            with suppress(AttributeError):
                error.holdfast_outage = True  # type: ignore[attr-defined]  # read by worker/attempt_outcome.py
        raise


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(_DEPTH):
        if current is None:
            return
        yield current
        current = getattr(current, "orig", None) or current.__cause__


def _is_broken(error: BaseException) -> bool:
    if isinstance(error, OSError) or getattr(error, "code", None) == _INVALIDATED:
        return True
    return any(each.__name__ in _BROKEN for each in type(error).__mro__)
