"""Which calls have a child process, and which wait for one: claimed, not begun, and at hand when a child has
ended its call before. Only calls that are short make others wait: a job that waits here runs nowhere else.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

from holdfast.domain.outcome import Released
from holdfast.worker.handler_requests import EndWith

# How much work may wait for a child, by what calls took lately, and how many calls at most.
_AHEAD_SECONDS = 0.05
_MOST_AHEAD = 16
# A call that has waited for so long is given back: those before it take longer than was usual. More than a
# child needs to start in another's place.
PATIENCE_SECONDS = 1.0
_WEIGHT = 1 / 8
# What a call takes as long as nothing is known: it takes some twenty short ones to let others wait.
_AT_FIRST = 1.0


class Turns:
    """At most `limit` calls at once, in order. `tell` hears how many more may be claimed."""

    def __init__(
        self,
        limit: int,
        tell: Callable[[int], None] = lambda _: None,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._limit = limit
        self._tell = tell
        self._patience = patience
        self._free = limit
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._usual = _AT_FIRST

    @property
    def ahead(self) -> int:
        """How many more calls than children may be claimed."""
        return self._limit * min(int(_AHEAD_SECONDS / max(self._usual, 1e-6)), _MOST_AHEAD)

    async def taken(self) -> None:
        """Wait for a turn. Raises EndWith for a call that has waited too long: its attempt is given back."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, monotonic()))
        if self._timer is None:
            self._look_in(self._patience)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give_back()
            raise

    def give_back(self) -> None:
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def took(self, seconds: float) -> None:
        """A call has ended after so long."""
        self._usual += (seconds - self._usual) * _WEIGHT
        self._tell(self.ahead)

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        self._timer, now = None, monotonic()
        while self._waiting:
            turn, since = self._waiting[0]
            if now < since + self._patience:
                self._look_in(since + self._patience - now)
                return
            self._waiting.popleft()
            if not turn.done():
                self._usual = max(self._usual, 2 * _AHEAD_SECONDS)
                self._tell(self.ahead)
                turn.set_exception(EndWith(Released()))
