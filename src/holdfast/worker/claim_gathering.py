"""When free slots wait for others, so that one claim brings jobs for several of them.

A claim costs nearly as much for one job as for fifty. But a slot that waits is idle, and jobs that mostly
wait for something themselves would be slowed down. So slots gather only where there is more to do than CPU
time to do it with: the last claim came back full, and this process has little time in which it waits. Then
what a claim saves is there for the jobs that run.
"""

from collections.abc import Callable
from pathlib import Path
from time import monotonic, process_time, thread_time

# From which part of the time on a worker counts as busy; how often to look, and the weight of a look.
_BUSY = 0.5
_LOOK_SECONDS = 0.02
_WEIGHT = 1 / 4
# Should the jobs that hold the other slots take long.
LONGEST_SECONDS = 0.002

_SCHEDULED = Path("/proc/thread-self/schedstat")


def cpu_wanted() -> tuple[float, float]:
    """For how many seconds this thread ran or waited for a CPU, which on a crowded machine is most of the
    time; and for how many all threads of this process ran.
    """
    try:
        running, waiting, _ = _SCHEDULED.read_bytes().split()
    except (OSError, ValueError):  # not Linux
        return thread_time(), process_time()
    return (int(running) + int(waiting)) / 1e9, process_time()


class Busyness:
    """Whether the process that it is made in, on its event loop, has little time to spare."""

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        wanted: Callable[[], tuple[float, float]] = cpu_wanted,
    ) -> None:
        self._clock = clock
        self._wanted = wanted
        self._at, self._before = clock(), wanted()
        self._usual = 0.0

    def look(self) -> bool:
        """Cheap enough to be asked with every claim."""
        lasting = self._clock() - self._at
        if lasting >= _LOOK_SECONDS:
            wanted = self._wanted()
            most = max(now - before for now, before in zip(wanted, self._before, strict=True))
            self._at, self._before = self._at + lasting, wanted
            self._usual += (most / lasting - self._usual) * _WEIGHT
        return self._usual >= _BUSY


class ClaimGathering:
    """By queue. `later` calls a function after so many seconds, `claim` makes the fetcher look again."""

    def __init__(
        self,
        is_busy: Callable[[], bool],
        later: Callable[[float, Callable[[str], None], str], object],
        claim: Callable[[], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._is_busy = is_busy
        self._later = later
        self._claim = claim
        self._clock = clock
        # Until when the queues that gather do so; None as long as no slot waits.
        self._until: dict[str, float | None] = {}
        self._timed: set[str] = set()

    def answered(self, queue: str, *, is_full: bool) -> None:
        """A claim of this queue has been answered."""
        if is_full and self._is_busy():
            self._until[queue] = None
        else:
            self._until.pop(queue, None)

    def may_claim(self, queue: str, *, is_half_free: bool) -> bool:
        """Whether to claim now, for slots of which at least one is free."""
        if is_half_free or queue not in self._until:
            return True
        if self._until[queue] is None:
            self._until[queue] = self._clock() + LONGEST_SECONDS
            if queue not in self._timed:
                self._timed.add(queue)
                self._later(LONGEST_SECONDS, self._look, queue)
        return False

    def _look(self, queue: str) -> None:
        """One timer for each queue: it may have been claimed from since the timer was set."""
        until = self._until.get(queue)
        left = 0.0 if until is None else until - self._clock()
        if left > 0:
            self._later(left, self._look, queue)
            return
        self._timed.discard(queue)
        if until is not None:
            del self._until[queue]
            self._claim()
