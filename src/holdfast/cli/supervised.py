"""The messages between a supervisor and its workers, over one socket per worker.

A worker reports once that it has started, with `--once` that it has nothing left to do, and that an operator
asked it to stop. Without these reports the supervisor takes the end of a worker as unwanted, whatever its
exit code. It also reports that it cannot run the code it was given, and that it uses the private server of
this directory. The supervisor sends `DRAIN` and `HURRY`. When it ends, the socket closes, which also means
`DRAIN`: a killed supervisor leaves no worker behind.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click

from holdfast.cli.app_loader import AppNotImported
from holdfast.errors import InvalidConnectionString, InvalidInput

VARIABLE = "HOLDFAST_SUPERVISOR_FD"

STARTED = b"s"
FINISHED = b"f"
STOPPED = b"o"
BROKEN = b"b"
PRIVATE = b"p"
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


@contextmanager
def telling_of_broken_code(supervised: Supervised | None) -> Iterator[None]:
    """Says so if the block fails for a reason that a change of the code can mend."""
    try:
        yield
    except InvalidConnectionString:
        raise
    except (AppNotImported, InvalidInput, click.UsageError):
        if supervised is not None:
            supervised.say(BROKEN)
        raise
