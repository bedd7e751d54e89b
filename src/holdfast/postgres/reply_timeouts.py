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


class SocketProbe:
    """Asks a socket again and again, one thread at a time, whether something can be read from it."""

    __slots__ = ("_poll",)

    def __init__(self, connection: _Connection) -> None:
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def is_readable(self) -> bool:
        """On a connection that waits for nothing this is most often its end. Ask only while the connection is
        open: afterwards the number of its socket belongs to another.
        """
        return bool(self._poll.poll(0))


class Patience:
    """One bound for any number of connections, with one timer: the longest wait is over first. Zero
    seconds mean no bound.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[Reply, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def reply_on(self, connection: _Connection) -> "Reply":
        return Reply(self, connection)

    def close(self) -> None:
        """Leave no timer behind, except for replies that are still awaited."""
        if self._timer and not self._waiting:
            self._timer.cancel()
            self._timer = None

    def begin(self, reply: "Reply") -> None:
        if self._seconds:
            reply.deadline = monotonic() + self._seconds
            self._waiting[reply] = None
            if self._timer is None:
                self._look_in(self._seconds)

    def end(self, reply: "Reply") -> None:
        self._waiting.pop(reply, None)

    def cut_older_than(self, since: float) -> None:
        """End the waits that began before then: it is known that nothing will come."""
        for reply in [each for each in self._waiting if each.deadline - self._seconds <= since]:
            del self._waiting[reply]
            reply.cut()

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        for reply in list(self._waiting):
            left = reply.deadline - monotonic()
            if left > 0:
                self._look_in(left)
                return
            del self._waiting[reply]
            reply.cut()


class Reply(Bound):
    """One wait: the block in which it happens."""

    __slots__ = ("_connection", "_patience", "deadline")

    def __init__(self, patience: Patience, connection: _Connection) -> None:
        super().__init__()
        self._patience = patience
        self._connection = connection
        self.deadline = 0.0

    def __enter__(self) -> Self:
        self._patience.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._patience.end(self)

    def cut(self) -> None:
        if not self._connection.closed:
            self.was_reached = True
            cut(self._connection.fileno())


@contextmanager
def replies_within(connection: _Connection, seconds: float) -> Iterator[Reply]:
    """Cut the connection if the block is not over in time; zero seconds mean no bound."""
    patience = Patience(seconds)
    try:
        with patience.reply_on(connection) as reply:
            yield reply
    finally:
        patience.close()


class Watchdog:
    """The same bound for threads: a thread that calls `bite` now and then cuts what is overdue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[float, float, Bound]] = {}

    @contextmanager
    def replies_within(self, connection: _Connection, seconds: float) -> Iterator[Bound]:
        bound = Bound()
        if not seconds or connection.closed:
            yield bound
            return
        # A second descriptor: a failing statement closes the first one, whose number is soon another's.
        descriptor = os.dup(connection.fileno())
        with self._lock:
            self._watched[descriptor] = (monotonic(), seconds, bound)
        try:
            yield bound
        finally:
            with self._lock:
                del self._watched[descriptor]
            os.close(descriptor)

    def hasten(self, seconds: float) -> None:
        """What waits now has no more patience than this, counted from when it began."""
        with self._lock:
            for descriptor, (began, patience, bound) in self._watched.items():
                self._watched[descriptor] = (began, min(patience, seconds), bound)

    def bite(self) -> None:
        now = monotonic()
        with self._lock:
            for descriptor, (began, seconds, bound) in self._watched.items():
                if now >= began + seconds:
                    bound.was_reached = True
                    cut(descriptor)


def cut(descriptor: int) -> None:
    """End a socket under the code that waits on it, which sees a lost connection, not a cancellation.

    Cancelling would ask the silent server to cancel, and wait for its answer again.
    """
    with suppress(OSError):
        end = socket.socket(fileno=descriptor)
        try:
            end.shutdown(socket.SHUT_RDWR)
        finally:
            end.detach()
