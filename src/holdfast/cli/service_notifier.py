"""Tells systemd, for a service of `Type=notify`, that the worker is up, that it stops and, with
`WatchdogSec=`, that it works.
"""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import sleep
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_WORKS: Final = "WATCHDOG=1"


class ServiceNotifier:
    """Says nothing if nobody listens. `address` is the path of a socket, or an abstract one that begins with
    `@`; `watchdog` is within how many seconds systemd wants to hear that all is well.
    """

    def __init__(self, address: str | None = None, watchdog: float | None = None) -> None:
        self._address = None if address is None else address.replace("@", "\0", 1)
        self._watchdog = watchdog

    @classmethod
    def from_environment(cls) -> "ServiceNotifier":
        """Taken out of the environment: what this process starts has nothing to tell systemd."""
        address = os.environ.pop("NOTIFY_SOCKET", None)
        length, pid = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
        is_meant = pid in ("", str(os.getpid()))
        return cls(address or None, int(length) / 1e6 if length.isdecimal() and is_meant else None)

    @property
    def is_watched(self) -> bool:
        return self._address is not None and self._watchdog is not None

    def say(self, word: str) -> None:
        if self._address is None:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.connect(self._address)
            line.sendall(word.encode())

    def watch(self, is_well: Callable[[], bool]) -> None:
        """From now on, as long as all is well, say so three times within the watchdog's time."""
        if self._address is None or self._watchdog is None:
            return
        pause = self._watchdog / 3

        def repeat() -> None:
            while True:
                if is_well():
                    self.say(_WORKS)
                sleep(pause)

        threading.Thread(target=repeat, name="holdfast-watchdog", daemon=True).start()
