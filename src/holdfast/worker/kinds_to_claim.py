"""Which kinds a claim asks for: all of them, or only those that need no child process while none is free.

A claim must never bring more jobs for child processes than places were taken for it. So a claim for all kinds
is at most as large as the number of free places, while a claim without these kinds may be as large as the
number of free slots. A queue that has both is asked in turns.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.storage.runs import ClaimRow
from holdfast.worker.processes.places import Places

# For how long claims without the kinds of child processes go on before the next claim with them.
_TURN_SECONDS = 0.02
# A claim that took longer than this has skipped many jobs that it may not take. The next one waits _REST
# times as long: skipping a long backlog must stay a small part of the time.
_LONG_SECONDS = 0.005
_REST = 10
_LONGEST_REST = 1.0


def rest_after(took: float) -> float:
    """For how many seconds not to skip through a queue's backlog again after that took so long."""
    return min(_REST * took, _LONGEST_REST) if took > _LONG_SECONDS else 0


class ClaimRequest(NamedTuple):
    """What one claim asks for. `places` were taken for it, and are given back when it is answered."""

    kinds: tuple[str, ...]
    limit: int
    is_whole: bool
    places: int


class KindsToClaim:
    """Chooses for one fetcher, by queue."""

    def __init__(
        self,
        kinds: Sequence[str],
        isolated: Sequence[str],
        places: Places | None,
        steps_over: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`steps_over` says of a queue whether it has many jobs of kinds that are claimed apart."""
        self._all = tuple(kinds)
        self._isolated = frozenset(isolated) if places is not None else frozenset()
        self._others = tuple(kind for kind in kinds if kind not in self._isolated)
        self._places = places or Places(0)
        self._steps_over = steps_over
        self._others_until: dict[str, float] = {}
        self._rests_until: dict[str, float] = {}
        self._left_out: dict[str, None] = {}

    def ask(self, queue: str, limit: int, now: float) -> ClaimRequest | None:
        """What to ask of a queue that has slots for `limit` jobs; None to ask nothing now. The fetcher then
        asks again when a place is free, or after the queue's rest.
        """
        if not self._all:
            return None
        is_resting = now < self._rests_until.get(queue, 0)
        if not self._isolated:
            return None if is_resting else ClaimRequest(self._all, limit, is_whole=True, places=0)
        free = self._places.free
        is_turn_of_others = limit > free and now < self._others_until.get(queue, 0) and not is_resting
        if free and not (is_turn_of_others and self._others):
            places = min(limit, free)
            self._places.take(places)
            self._left_out.pop(queue, None)
            return ClaimRequest(self._all, places, is_whole=True, places=places)
        if not free:
            self._left_out[queue] = None
            self._places.is_wanted_by_claims = True
        if not self._others or is_resting:
            return None
        return ClaimRequest(self._others, limit, is_whole=False, places=0)

    def failed(self, asking: ClaimRequest) -> None:
        """The claim failed, and brought nothing."""
        if asking.places:
            self._places.give_back(asking.places)

    def answered(
        self, queue: str, asking: ClaimRequest, jobs: Sequence[ClaimRow], *, took: float, now: float
    ) -> bool:
        """Whether there may be more to claim. Each job for a child process keeps its place until it ends."""
        is_full = len(jobs) == asking.limit
        if not self._isolated:
            if not is_full and self._steps_over(queue) and (rest := rest_after(took)):
                self._rests_until[queue] = now + rest
            return is_full
        if asking.is_whole:
            surplus = asking.places - sum(job.kind in self._isolated for job in jobs)
            if surplus:
                self._places.give_back(surplus)
            if is_full:
                self._others_until[queue] = now + _TURN_SECONDS
            return is_full
        if is_full:
            return True
        self._others_until.pop(queue, None)
        if rest := rest_after(took):
            self._rests_until[queue] = now + rest
        return self._places.free > 0

    def rest(self, queue: str, now: float) -> float:
        """For how many more seconds not to ask a queue whose backlog takes long to skip."""
        return max(self._rests_until.get(queue, 0) - now, 0)

    def to_look_for(self) -> tuple[str, ...]:
        """What an idle poll asks about."""
        return self._all if self._places.free or not self._isolated else self._others

    def left_out(self) -> dict[str, None]:
        """The queues whose last claim left out kinds, since no place was free. Returned once: now there is
        one.
        """
        queues, self._left_out = self._left_out, {}
        self._places.is_wanted_by_claims = False
        return queues
