"""How many child processes may work at once, and whether a claim or a flow's step gets the next free one."""

import asyncio
from collections import deque
from collections.abc import Callable

# For how long a free place is kept for a claim while steps of flows wait.
_OFFER_SECONDS = 0.2


class Places:
    """One place for each child that may work. A claim takes places before it asks for jobs, so that claimed
    jobs begin at once. A step of a flow, whose run has begun, waits for a place. Steps and claims take turns.
    """

    def __init__(self, limit: int, on_free: Callable[[], None] = lambda: None) -> None:
        self.limit = limit
        # Whether jobs may wait that a claim left out for want of a place.
        self.is_wanted_by_claims = False
        self._ahead = 0
        self._on_free = on_free
        self._free = limit
        self._is_claims_turn = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> int:
        """For claims. While all children work, it is several at a time or none: a claim costs as much for one
        job as for many.
        """
        ahead = 0 if self._waiting else self._ahead
        free = self._free + ahead
        return 0 if self._free <= 0 and free < ahead // 2 else max(free, 0)

    def allow_ahead(self, number: int) -> None:
        """So many more jobs may be claimed than there are children. They wait, and are at hand when a child
        is free. None while steps wait.
        """
        self._ahead = number

    def take(self, number: int) -> None:
        """For jobs that are about to be claimed: at most as many as are free."""
        self._free -= number
        self._is_claims_turn = False

    def give_back(self, number: int = 1) -> None:
        self._free += number
        if self._waiting and self._is_claims_turn and self.is_wanted_by_claims:
            # Should the claim not come, or find nothing.
            asyncio.get_running_loop().call_later(_OFFER_SECONDS, self._hand_out)
        else:
            self._hand_out()
        if self.free:
            self._on_free()

    async def taken(self) -> None:
        """Wait for a place, in order."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def _hand_out(self) -> None:
        while self._free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._free -= 1
                self._is_claims_turn = True
                turn.set_result(None)
