"""One timer for the earliest timeout, however many runs there are."""

import asyncio
import math
from collections.abc import Callable, Mapping
from time import monotonic

from holdfast.worker.claimed_run import ClaimedRun, Stop


class RunTimeouts:
    """`next_at` is when the timer goes off. A run with an earlier timeout has to be watched; the others are
    looked at then.
    """

    def __init__(self, runs: Mapping[int, ClaimedRun], stop: Callable[[ClaimedRun, Stop], None]) -> None:
        self._runs = runs
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.next_at = math.inf

    def watch(self, claimed: ClaimedRun) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wait_until(claimed.overdue_at)

    def _wait_until(self, moment: float) -> None:
        self.next_at = moment
        self._timer = self._loop.call_later(max(moment - monotonic(), 0), self._time_out)

    def _time_out(self) -> None:
        self._timer, self.next_at = None, math.inf
        now = monotonic()
        for claimed in list(self._runs.values()):
            if claimed.overdue_at <= now:
                self._stop(claimed, Stop.TIMEOUT)
        left = [claimed.overdue_at for claimed in self._runs.values() if claimed.stop is None]
        if left:
            self._wait_until(min(left))
