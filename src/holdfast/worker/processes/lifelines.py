"""The worker's ends of the pipes whose closing kills its children. No other process may hold one: `exec`
closes them, and processes that are forked, such as by multiprocessing in a handler, close them here.
"""

import os
from contextlib import suppress

_held: set[int] = set()


def hold(lifeline: int) -> None:
    _held.add(lifeline)


def end(lifeline: int) -> None:
    """Removed from the set first: a fork in between must not close a file that got the same number."""
    _held.discard(lifeline)
    os.close(lifeline)


def _close_in_fork() -> None:
    while _held:
        with suppress(OSError):
            os.close(_held.pop())


os.register_at_fork(after_in_child=_close_in_fork)
