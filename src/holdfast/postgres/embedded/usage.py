"""Counts the users of the server by a lock: the kernel drops a killed user's lock, with nothing to repair."""

import logging
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from holdfast.errors import DataDirectoryError
from holdfast.postgres.embedded.failures import explained
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.locks import FileLock, is_held

_log = logging.getLogger("holdfast.postgres.embedded")
# Long enough for another process's initdb on a slow disk, or for its shutdown checkpoint.
_DECISION_SECONDS = 120.0
# Only a process that counts the users stands in the way, for an instant.
_PROBE_SECONDS = 5.0

_uses: "weakref.WeakSet[Use]" = weakref.WeakSet()


@contextmanager
def deciding(layout: Layout) -> Iterator[None]:
    """While inside, no other process starts or stops this server, or counts its users."""
    with explained(layout.root):
        lock = FileLock(layout.decision_lock)
        is_ours = lock.take_exclusive_within(_DECISION_SECONDS)
    try:
        if not is_ours:
            raise DataDirectoryError(
                f"another process has been starting or stopping the server in {layout.root} for "
                f"{_DECISION_SECONDS:g} s: look at {layout.log}, or end that process"
            )
        yield
    finally:
        lock.unlock()
        lock.close()


class Use:
    """One user's claim to the server. A forked child gets a claim of its own, and leaves on its own."""

    def __init__(self, layout: Layout) -> None:
        self._path = layout.users_lock
        self._lock: FileLock | None = None
        self._for_child: FileLock | None = None

    @property
    def is_open(self) -> bool:
        return self._lock is not None

    def begin(self) -> bool:
        """Start being counted. Returns whether there was no other user. Call while deciding."""
        with explained(self._path.parent):
            was_alone = not is_held(self._path)
            self._lock = self._claim()
        _watch_forks()
        _uses.add(self)
        return was_alone

    def end(self) -> bool:
        """Stop being counted. Returns whether no user is left. Call while deciding."""
        self.drop()
        return not is_held(self._path)

    def drop(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.unlock()
            lock.close()

    def _claim(self) -> FileLock:
        lock = FileLock(self._path)
        if not lock.take_shared_within(_PROBE_SECONDS):
            lock.close()
            raise DataDirectoryError(f"{self._path} is locked by a program that is not Holdfast")
        return lock

    def claim_for_child(self) -> None:
        """Before a fork, so that the child is counted even if the parent leaves before the child has run."""
        if self._lock is None:
            return
        try:
            self._for_child = self._claim()
        except (OSError, DataDirectoryError) as error:
            _log.warning("a forked process does not count as a user of the embedded server: %s", error)

    def release_to_child(self) -> None:
        # Closed but not unlocked: from here on the child's copy holds it alone.
        lock, self._for_child = self._for_child, None
        if lock is not None:
            lock.close()

    def adopt_in_child(self) -> None:
        # Close the inherited lock without unlocking it: the parent still holds it.
        if self._lock is not None:
            self._lock.close()
        self._lock, self._for_child = self._for_child, None


@cache
def _watch_forks() -> None:
    os.register_at_fork(
        before=lambda: _each(Use.claim_for_child),
        after_in_parent=lambda: _each(Use.release_to_child),
        after_in_child=lambda: _each(Use.adopt_in_child),
    )


def _each(action: Callable[[Use], None]) -> None:
    for use in list(_uses):
        action(use)
