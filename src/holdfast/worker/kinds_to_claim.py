"""Which kinds a claim asks for: all, or while no child process is free, without those that need one.

A claim is never given more jobs for child processes than it has taken places for. So one that asks for all
kinds is as small as the number of places, and one that leaves these kinds out may be as large as there are
slots: a queue that has both is asked in turns.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.storage.runs import ClaimRow
from holdfast.worker.processes.places import Places

# For how long larger claims without the kinds of child processes go on before the next one with them.
_TURN_SECONDS = 0.02
# A claim that took longer than this has stepped over many jobs that it may not take. The next one waits so
# many times as long: stepping over a long backlog is to be only a small part of the time.
_LONG_SECONDS = 0.005
_REST = 10
_LONGEST_REST = 1.0


def rest_after(took: float) -> float:
    """For how many seconds nobody should step over all of a queue's backlog after it took so long."""
    return min(_REST * took, _LONGEST_REST) if took > _LONG_SECONDS else 0


class ClaimRequest(NamedTuple):
    """What one claim asks for. `places` were taken for it, and are given back with its answer."""

    kinds: tuple[str, ...]
    limit: int
    is_whole: bool
    places: int


class KindsToClaim:
    """Of a fetcher, by queue."""

    def __init__(self, kinds: Sequence[str], isolated: Sequence[str], places: Places | None) -> None:
        self._all = tuple(kinds)
        self._isolated = frozenset(isolated) if places is not None else frozenset()
        self._others = tuple(kind for kind in kinds if kind not in self._isolated)
        self._places = places or Places(0)
        self._others_until: dict[str, float] = {}
        self._rests_until: dict[str, float] = {}
        self._left_out: dict[str, None] = {}

    def ask(self, queue: str, limit: int, now: float) -> ClaimRequest | None:
        """What to ask of a queue that has slots for `limit` jobs; None when nothing can be asked now. It is
        then asked again when a place is free, or after its rest.
        """
        if not self._isolated:
            return ClaimRequest(self._all, limit, is_whole=True, places=0)
        free, is_resting = self._places.free, now < self._rests_until.get(queue, 0)
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
        """The claim has brought nothing."""
        if asking.places:
            self._places.give_back(asking.places)

    def answered(
        self, queue: str, asking: ClaimRequest, jobs: Sequence[ClaimRow], *, took: float, now: float
    ) -> bool:
        """Whether there may be more for us. Each job for a child process keeps a place until it ends."""
        is_full = len(jobs) == asking.limit
        if not self._isolated:
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
        """For how many seconds a queue is not asked, lest all of it be stepped over again."""
        return max(self._rests_until.get(queue, 0) - now, 0)

    def to_look_for(self) -> tuple[str, ...]:
        """What an idle poll asks about."""
        return self._all if self._places.free or not self._isolated else self._others

    def left_out(self) -> dict[str, None]:
        """The queues that have been asked for less than all kinds, once: now there is a place."""
        queues, self._left_out = self._left_out, {}
        self._places.is_wanted_by_claims = False
        return queues
