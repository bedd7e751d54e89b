"""Who uses the server, counted by a lock: a killed user is no longer counted, with nothing to repair."""

import logging
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from holdfast.errors import DataDirectoryError
from holdfast.postgres.embedded.failures import explained
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.locks import FileLock, is_held, opened

_log = logging.getLogger("holdfast.postgres.embedded")
# Long enough for another process's initdb on a slow disk, or for its shutdown checkpoint.
_DECISION_SECONDS = 120.0
_FORK_SECONDS = 1.0

_uses: "weakref.WeakSet[Use]" = weakref.WeakSet()


@contextmanager
def deciding(layout: Layout) -> Iterator[None]:
    """While inside, nobody else starts or stops this server, or counts its users."""
    with explained(layout.root):
        opening = opened(layout.decision_lock)
        lock = opening.__enter__()
    try:
        if not lock.take_exclusive_within(_DECISION_SECONDS):
            raise DataDirectoryError(
                f"another process has been starting or stopping the server in {layout.root} for "
                f"{_DECISION_SECONDS:g} s: look at {layout.log}, or end that process"
            )
        yield
        lock.unlock()
    finally:
        lock.close()


class Use:
    """One user's claim to the server. A forked child gets a claim of its own, and leaves on its own."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.users_lock
        self._lock: FileLock | None = None

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    def begin(self) -> bool:
        """Start being counted. Returns whether there was no other user. Call while deciding."""
        with explained(self._path.parent):
            was_alone = not is_held(self._path)
            self._claim()
        _watch_forks()
        _uses.add(self)
        return was_alone

    def end(self) -> bool:
        """Stop being counted. Returns whether nobody is left. Call while deciding."""
        self.drop()
        return not is_held(self._path)

    def drop(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.unlock()
            lock.close()

    def _claim(self) -> None:
        lock = FileLock(self._path)
        if not lock.take_shared_within(_FORK_SECONDS):
            lock.close()
            raise DataDirectoryError(f"{self._path} is locked by a program that is not Holdfast")
        self._lock = lock

    def claim_after_fork(self) -> None:
        if self._lock is None:
            return
        # The inherited lock is the parent's: closed here, but not unlocked.
        self._lock.close()
        self._lock = None
        try:
            self._claim()
        except (OSError, DataDirectoryError) as error:
            _log.warning("a forked process does not count as a user of the embedded server: %s", error)


@cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_claim_all_after_fork)


def _claim_all_after_fork() -> None:
    for use in list(_uses):
        use.claim_after_fork()
