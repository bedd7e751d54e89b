"""The socket under a connection: whether it has ended, and how to end one that went silent.

Keepalives and TCP's own timeout notice a peer that is gone. They do not notice a frozen server, or a proxy
that acknowledges and forwards nothing: for those every reply that we wait for has a bound of ours.
"""

import asyncio
import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Protocol, Self


class _Connection(Protocol):
    def fileno(self) -> int: ...

    @property
    def closed(self) -> bool: ...


class Bound:
    """Whether a wait for a reply was cut short."""

    __slots__ = ("was_reached",)

    def __init__(self) -> None:
        self.was_reached = False


def has_something_to_say(connection: _Connection) -> bool:
    """Whether a connection on which nothing is expected can be read: most often its end."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


class RepliesWithin(Bound):
    """Cut the connection if the block is not over in time; zero seconds mean no bound."""

    __slots__ = ("_connection", "_seconds", "_timer")

    def __init__(self, connection: _Connection, seconds: float) -> None:
        super().__init__()
        self._connection = connection
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._seconds:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._reached)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer:
            self._timer.cancel()

    def _reached(self) -> None:
        if not self._connection.closed:
            self.was_reached = True
            _cut(self._connection.fileno())


class Watchdog:
    """The same bound for threads: whoever calls `bite` now and then cuts what is overdue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[float, Bound]] = {}

    @contextmanager
    def replies_within(self, connection: _Connection, seconds: float) -> Iterator[Bound]:
        bound = Bound()
        if not seconds or connection.closed:
            yield bound
            return
        # A second descriptor: a failing statement closes the first one, whose number is soon another's.
        descriptor = os.dup(connection.fileno())
        with self._lock:
            self._watched[descriptor] = (monotonic() + seconds, bound)
        try:
            yield bound
        finally:
            with self._lock:
                del self._watched[descriptor]
            os.close(descriptor)

    def bite(self) -> None:
        now = monotonic()
        with self._lock:
            for descriptor, (deadline, bound) in self._watched.items():
                if now >= deadline:
                    bound.was_reached = True
                    _cut(descriptor)


def _cut(descriptor: int) -> None:
    """End a socket under whoever waits on it: they see a lost connection, not a cancellation.

    Cancelling would ask the silent server to cancel, and wait for its answer again.
    """
    with suppress(OSError):
        end = socket.socket(fileno=descriptor)
        try:
            end.shutdown(socket.SHUT_RDWR)
        finally:
            end.detach()
