"""`app.using(conn=…)`: the connection that every write inside a block goes to, so that no call can forget it.
One connection serves one task or thread: a task or thread that is started inside the block is refused.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import get_ident
from types import TracebackType
from typing import Final

from holdfast.errors import WrongConnection
from holdfast.postgres.borrowed.kinds import check_known

Place = tuple[int, "asyncio.Task[object] | None"]
"""A thread, and the task that runs in it."""


class _OwnTransaction:
    """For `conn`: not in your transaction, on purpose. What you write is committed by itself, at once."""

    def __repr__(self) -> str:
        return "OWN_TRANSACTION"


OWN_TRANSACTION: Final = _OwnTransaction()


class AmbientConnection:
    """Made by `app.using(conn=…)`; entered once, by `async with` or by `with`."""

    __slots__ = ("_app", "_conn", "_outer", "_place", "_token")

    def __init__(self, app: object, conn: object) -> None:
        if conn is None:
            raise WrongConnection(
                "app.using(conn=None) names no connection: pass the connection that your transaction is open "
                "on, or OWN_TRANSACTION (from holdfast) to commit by itself"
            )
        if conn is not OWN_TRANSACTION:
            check_known(conn)
        self._app = app
        self._conn: object = conn
        self._outer: AmbientConnection | None = None
        self._place: Place | None = None
        self._token: Token[AmbientConnection | None] | None = None

    def __enter__(self) -> object:
        if self._token is not None:
            raise WrongConnection("this app.using(conn=…) was entered before: make a new one for each block")
        self._place = _here()
        self._outer = _innermost.get()
        self._token = _innermost.set(self)
        return self._conn

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Tasks that were started inside have a copy: it is still refused there, and keeps nothing alive.
        self._conn = self._place = None
        assert self._token is not None, "left before it was entered"  # noqa: S101  # with statements do not
        try:
            _innermost.reset(self._token)
        except ValueError:
            if error is None:
                raise WrongConnection(
                    "app.using(conn=…) exited in another task or thread than it was entered in, so "
                    "the code in between never saw it: enter it in the function that enqueues"
                ) from None

    async def __aenter__(self) -> object:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def of(self, app: object) -> "AmbientConnection | None":
        """The innermost block of this app, from this one outwards."""
        if self._app is app or self._outer is None:
            return self if self._app is app else None
        return self._outer.of(app)

    def taken(self) -> object:
        if self._place != _here():
            raise WrongConnection(
                "this runs in another task or thread than the app.using(conn=…) that it was started in, and "
                "a connection serves one at a time: enter app.using(conn=…) here, with a connection of this "
                "task's own, or pass conn=OWN_TRANSACTION to commit by itself"
            )
        return self._conn


_innermost: ContextVar[AmbientConnection | None] = ContextVar("holdfast_ambient_connection", default=None)


def given_or_ambient(app: object, conn: object) -> object:
    """The connection that a caller passed, else the one of the innermost block of this app; None if there is
    neither. Refused in a task or thread that the block is not valid in.
    """
    if conn is not None:
        return conn
    innermost = _innermost.get()
    if innermost is None:
        return None  # nearly always
    found = innermost.of(app)
    return None if found is None else found.taken()


@contextmanager
def no_ambient_connection() -> Iterator[None]:
    """For a worker that is started inside a block: its jobs do not write on the block's connection."""
    token = _innermost.set(None)
    try:
        yield
    finally:
        _innermost.reset(token)


def _here() -> Place:
    try:
        return get_ident(), asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return get_ident(), None
