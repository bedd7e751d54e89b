"""Until when this process may believe in the lease of one worker: a moment that the lease keeper's thread
moves on, and that everything which begins something compares with the clock.

A process that was frozen finds the claims it asked for before, and tasks that were about to begin. Their jobs
may have ended meanwhile: nothing of the handler's may happen any more.
"""

import math
from time import monotonic

from holdfast.errors import LeaseLost


class NotBegun(LeaseLost):
    """What was to begin has not: the lease had run out by then. Nothing of it happened."""


class Lease:
    """Of one identity of this worker. A later identity has a lease of its own: this one stays over."""

    __slots__ = ("believed_until", "worker")

    def __init__(self, worker: int, believed_until: float) -> None:
        self.worker = worker
        self.believed_until = believed_until

    @property
    def is_over(self) -> bool:
        return monotonic() >= self.believed_until

    def check(self, job: int, run: int, doing: str) -> None:
        """NotBegun if it is over. Called right before a handler or a step, in the thread that calls it."""
        if monotonic() >= self.believed_until:
            raise NotBegun(job=job, run=run, doing=doing)


UNBOUNDED = Lease(0, math.inf)
"""For a run that is no worker's, such as in a child process, whose worker looks after it."""
