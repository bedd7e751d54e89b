"""Until when this process may rely on the lease of its worker. The lease keeper's thread moves that moment
on; every handler and step compares it with the clock before it begins.

A process that was frozen may wake up with a claim's answer in its socket and tasks about to begin. Another
worker may have run their jobs in the meantime, so no handler may be called for them.
"""

import math
from time import monotonic

from holdfast.errors import LeaseLost


class NotBegun(LeaseLost):
    """The lease ran out before the handler or step began. Nothing of it happened."""


class Lease:
    """The lease of one registration of this worker. A later registration has a lease of its own."""

    __slots__ = ("believed_until", "worker")

    def __init__(self, worker: int, believed_until: float) -> None:
        self.worker = worker
        self.believed_until = believed_until

    @property
    def is_over(self) -> bool:
        return monotonic() >= self.believed_until

    def check(self, job: int, run: int, doing: str) -> None:
        """Raises NotBegun if it is over. Called right before a handler or a step, in its own thread."""
        if monotonic() >= self.believed_until:
            raise NotBegun(job=job, run=run, doing=doing)


UNBOUNDED = Lease(0, math.inf)
"""For a run in a child process, whose worker checks the lease, and for runs that only hooks look at."""
