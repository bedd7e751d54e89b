"""Advisory locks on files (flock). They end with the process that holds them, however it ends.

Each FileLock is an open file description of its own, so two in one process exclude each other like
two processes do. Letting go is an explicit unlock, not only a close: between a fork and its exec a
child holds copies of every descriptor, and would keep a merely closed lock alive.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.01


class FileLock:
    """A lock that can be taken shared or exclusive. Closed on exec: no program we start inherits it."""

    def __init__(self, path: Path) -> None:
        # Read-only is enough for flock, and lets root and the owner of the directory share one file.
        self._descriptor: int | None = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @property
    def descriptor(self) -> int:
        assert self._descriptor is not None, "the lock is closed"  # noqa: S101 - a mistake of this package
        return self._descriptor

    def take_shared(self) -> bool:
        return self._take(fcntl.LOCK_SH)

    def take_exclusive(self) -> bool:
        return self._take(fcntl.LOCK_EX)

    def take_exclusive_within(self, seconds: float) -> bool:
        return _until(self.take_exclusive, seconds)

    def take_shared_within(self, seconds: float) -> bool:
        return _until(self.take_shared, seconds)

    def unlock(self) -> None:
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _take(self, kind: int) -> bool:
        try:
            fcntl.flock(self.descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def is_held(path: Path) -> bool:
    """Whether anyone holds the lock now. Asking takes it for an instant: takers wait a little and retry."""
    with opened(path) as lock:
        if not lock.take_exclusive():
            return True
        lock.unlock()
    return False


@contextmanager
def opened(path: Path) -> Iterator[FileLock]:
    lock = FileLock(path)
    try:
        yield lock
    finally:
        lock.close()


def _until(attempt: Callable[[], bool], seconds: float) -> bool:
    # flock has no time limit of its own, and an alarm signal belongs to the application.
    deadline = time.monotonic() + seconds
    while not attempt():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
