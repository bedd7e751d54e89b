"""Where the next claim of a queue begins, and what it passes over, while claims come back full.

A claim from the front steps over every row that was just taken, here or by another worker. So with a backlog
claims go on behind the last one, and pass over what others have locked; but only for a moment, since a more
urgent job may come, and a job that another worker had locked may be left to us.
"""

from typing import NamedTuple

from holdfast.storage.runs import ClaimRow
from holdfast.worker.kinds_to_claim import ClaimRequest, rest_after

# A full claim of so many jobs shows a backlog by itself; of fewer, two in a row do.
_MANY = 100
_BEHIND_FOR_SECONDS = 0.02
# Trying the locks of rows that other claims hold is most of what a claim costs beside many other workers.
_QUICK_FOR_SECONDS = 0.1


class ClaimStart(NamedTuple):
    """`after`: priority and id of a job, to claim only what comes behind it. `is_quick`: pass over every row
    that another transaction has locked, without trying whether it still does.
    """

    after: tuple[int, int] | None = None
    after_until: float = 0.0
    is_quick: bool = False
    quick_until: float = 0.0
    follows_a_full_one: bool = False


_FROM_THE_FRONT = ClaimStart()


class ClaimStarts:
    """By queue; apart for claims without some kinds, since how far those come says nothing of these kinds."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, bool], ClaimStart] = {}

    def take(self, queue: str, asking: ClaimRequest, now: float) -> ClaimStart:
        """Where to begin now. Forgotten with that: a claim that fails or is not full leaves nothing to go on
        from. If a quick one is not full, another has to follow, for what it has left out.
        """
        start = self._next.pop((queue, asking.is_whole), _FROM_THE_FRONT)
        is_quick = now < start.quick_until
        # Only a quick claim begins behind a job. So every claim that is not quick looks at all jobs.
        is_behind = is_quick and now < start.after_until
        return start._replace(is_quick=is_quick, after=start.after if is_behind else None)

    def wake(self, queue: str) -> None:
        """A job may have come that is more urgent than those behind which the next claim would go on."""
        start = self._next.get((queue, True))
        if start is not None:
            self._next[queue, True] = start._replace(after=None)

    def came_back_full(
        self,
        queue: str,
        asking: ClaimRequest,
        start: ClaimStart,
        last: ClaimRow,
        *,
        is_woken: bool,
        asked_at: float,
        now: float,
    ) -> None:
        """`is_woken`: a job came while the claim was under way."""
        shows_a_backlog = not asking.is_whole or asking.limit >= _MANY or start.follows_a_full_one
        after = None if asking.is_whole and is_woken else (last.priority, last.job or 0)
        after_until = start.after_until if start.after else _behind_until(asking, asked_at, now)
        quick_until = start.quick_until if start.is_quick else max(now + _QUICK_FOR_SECONDS, after_until)
        self._next[queue, asking.is_whole] = (
            ClaimStart(after, after_until, quick_until=quick_until, follows_a_full_one=True)
            if shows_a_backlog
            else ClaimStart(follows_a_full_one=True)
        )


def _behind_until(asking: ClaimRequest, asked_at: float, now: float) -> float:
    """Longer after a claim that had to skip much, since the next one would have to skip it again."""
    until = asked_at + _BEHIND_FOR_SECONDS
    return until if asking.is_whole else max(until, now + rest_after(now - asked_at))
