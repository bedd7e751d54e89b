"""How many more jobs may be claimed than there are children: claimed, not begun, and at hand when a child has
ended its call before. Only calls that are short make others wait: a job that waits here runs nowhere else.
"""

from collections.abc import Callable

# How much work may wait for a child, by what calls took lately, and how many calls at most.
_AHEAD_SECONDS = 0.05
_MOST_AHEAD = 64
_WEIGHT = 1 / 8
# What a call takes as long as nothing is known: it takes some twenty short ones to let others wait.
_AT_FIRST = 1.0


class ClaimsAhead:
    """`tell` hears of every change."""

    def __init__(self, children: int, tell: Callable[[int], None] = lambda _: None) -> None:
        self._children = children
        self._tell = tell
        self._usual = _AT_FIRST

    @property
    def number(self) -> int:
        return self._children * min(int(_AHEAD_SECONDS / max(self._usual, 1e-6)), _MOST_AHEAD)

    def took(self, seconds: float) -> None:
        """A call has ended after so long."""
        self._usual += (seconds - self._usual) * _WEIGHT
        self._tell(self.number)

    def were_late(self) -> None:
        """Calls have waited too long: those before them took longer than was usual."""
        self._usual = max(self._usual, 2 * _AHEAD_SECONDS)
        self._tell(self.number)
