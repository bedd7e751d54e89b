"""Whether an error of any library says that the database is in trouble, and not what was sent to it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.errors import HoldfastError
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


def mark_outage(error: BaseException) -> None:
    """An error of the connection's own library reaches the caller as it is. The mark tells the worker that a
    begin or a commit of ours met a database in trouble, and not a mistake of the handler's.
    """
    if is_outage_of(error):
        _mark(error)


@contextmanager
def outages_marked() -> Iterator[None]:
    """The same for a statement of ours in a transaction of the caller's. An earlier error of the caller's own
    may have ended that transaction: so only what says that the server or the connection failed is marked.
    """
    try:
        yield
    except Exception as error:
        code, _ = told(error)
        if is_outage_of(error) and (code is None or of_code(code).meaning is Meaning.TRANSIENT):
            _mark(error)
        raise


def _mark(error: BaseException) -> None:
    with suppress(AttributeError):
        error.holdfast_outage = True  # type: ignore[attr-defined]  # read by worker/attempt_outcome.py


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
