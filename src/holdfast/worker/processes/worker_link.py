"""What a child process says to its worker and hears from it, over a socket that both share."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

from holdfast.worker.processes import confinement
from holdfast.worker.processes.messages import LENGTH, Progress, ToChild, ToWorker, framed, read_body


class WorkerLink:
    """The child's end of the socket. Any thread may send: it blocks while the worker is too busy to read. If
    the socket is closed, by the worker's death or by a handler, the child ends.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.set_inheritable(False)  # its only form
        self._connection = connection
        self._file = connection.makefile("rb")
        self._lock = threading.Lock()

    def send(self, *messages: ToWorker) -> None:
        data = b"".join(map(framed, messages))
        try:
            with self._lock:
                self._connection.sendall(data)
        except OSError:
            confinement.die()

    def messages(self) -> Iterator[ToChild]:
        """All messages, until the worker is gone."""
        with suppress(OSError):
            while header := self._file.read(LENGTH.size):
                yield read_body(self._file.read(*LENGTH.unpack(header)))


class ProgressSender:
    """Sends the newest progress of a call once the worker has taken the one before: a handler may report
    progress for every row.
    """

    def __init__(self, link: WorkerLink, call: int) -> None:
        self._link = link
        self._call = call
        self._lock = threading.Lock()
        self._is_waiting = False
        self._newest: str | None = None

    def say(self, text: str) -> None:
        with self._lock:
            if self._is_waiting:
                self._newest = text
                return
            self._is_waiting = True
        self._link.send(Progress(self._call, text))

    def heard(self) -> None:
        with self._lock:
            text, self._newest = self._newest, None
            self._is_waiting = text is not None
        if text is not None:
            self._link.send(Progress(self._call, text))

    def finish(self) -> None:
        self.heard()
