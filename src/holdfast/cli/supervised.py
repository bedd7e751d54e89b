"""The messages between a supervisor and its workers, over one socket per worker.

A worker reports once that it has started, and with `--once` that it has nothing left to do. Without that
report the supervisor takes the end of a worker as unwanted, whatever its exit code. It sends `DRAIN` and
`HURRY`. When the supervisor ends, the socket closes, which also means `DRAIN`: a killed supervisor leaves no
worker behind.
"""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

VARIABLE = "HOLDFAST_SUPERVISOR_FD"

STARTED = b"s"
FINISHED = b"f"
DRAIN = b"d"
HURRY = b"h"


class Supervised:
    """The worker's end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    def from_environment(cls) -> "Supervised | None":
        """Taken out of the environment: what this worker starts is not supervised."""
        number = os.environ.pop(VARIABLE, None)
        if number is None:
            return None
        connection = socket.socket(fileno=int(number))
        connection.set_inheritable(False)
        return cls(connection)

    def say(self, word: bytes) -> None:
        with suppress(OSError):  # it is gone, as the listener sees
            self._connection.sendall(word)

    def orders(self, on_order: Callable[[bool], None]) -> None:
        """Call back for each order, with whether it is to hurry; from a thread, because a handler may block
        the event loop.
        """
        threading.Thread(target=self._listen, args=(on_order,), name="holdfast-orders", daemon=True).start()

    def _listen(self, on_order: Callable[[bool], None]) -> None:
        while True:
            try:
                order = self._connection.recv(1)
            except OSError:
                order = b""
            on_order(order == HURRY)
            if not order:
                return
