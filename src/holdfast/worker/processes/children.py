"""The child processes of a worker, in crews by their memory limit: how many there are of each, and when one
starts or ends. Children that had nothing to do for a while end.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Self

from holdfast.domain.outcome import Released
from holdfast.worker.handler_requests import EndWith
from holdfast.worker.processes.call import Call
from holdfast.worker.processes.child_process import ChildProcess
from holdfast.worker.processes.crew import Crew

IDLE_SECONDS = 60.0
# A call that has waited for so long is given back: those before it take longer than was usual. More than a
# child needs to start in another's place.
PATIENCE_SECONDS = 1.0
# A call that no child has begun for so long is told to be slow.
_SLOW_SECONDS = 4.0
_LOOK_SECONDS = 1.0


class Children:
    """At most `limit` of them. `on_late` hears that calls have waited too long. Their tasks are in a group,
    and never fail. No child is left when the `async with` block ends.
    """

    def __init__(
        self,
        limit: int | None,
        *,
        idle: float = IDLE_SECONDS,
        patience: float = PATIENCE_SECONDS,
        on_late: Callable[[], None] = lambda: None,
    ) -> None:
        self._limit = limit
        self._idle_seconds = idle
        self._patience = patience
        self._on_late = on_late
        self._group = asyncio.TaskGroup()
        self._crews: dict[int | None, Crew] = {}
        # Calls that come behind one whose crew has no child, so that no crew starves another.
        self._behind: deque[tuple[Crew, Call]] = deque()
        self._count = 0
        self._is_closing = False
        self._look: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._is_closing = True
        for timer in (self._look, self._sweep):
            if timer is not None:
                timer.cancel()
        for crew in self._crews.values():
            for child in crew.children:
                child.kill()
        # The group is not told of the block's own error, which it would wrap: its tasks end because they
        # are killed.
        try:
            await self._group.__aexit__(None, None, None)
        finally:
            for _, call in self._behind:
                call.give(EndWith(Released()))
            for crew in self._crews.values():
                crew.close()

    def put(self, memory_limit: int | None, call: Call) -> None:
        """Have a child run it, in order."""
        crew = self._crews.get(memory_limit)
        if crew is None:
            crew = self._crews[memory_limit] = Crew(memory_limit, self._freed)
        if self._behind or not crew.strength:
            self._behind.append((crew, call))
            self._hand_on()
        else:
            crew.put(call)
            if crew.needs > 0:
                self._strengthen(crew)
        if self._look is None:
            self._look = self._loop.call_later(min(self._patience, _LOOK_SECONDS), self._look_at_calls)

    def withdraw(self, memory_limit: int | None, call: Call) -> bool:
        """Whether it will never begin."""
        for each in self._behind:
            if each[1] is call:
                self._behind.remove(each)
                return True
        return self._crews[memory_limit].withdraw(call)

    def _hand_on(self) -> None:
        while self._behind:
            crew, call = self._behind[0]
            if not crew.strength and not self._strengthen(crew):
                return
            self._behind.popleft()
            crew.put(call)
            if crew.needs > 0:
                self._strengthen(crew)

    def _strengthen(self, crew: Crew) -> bool:
        """Start a child if there may be another. If not, have one of another crew leave, if it has nothing to
        do: its end makes room.
        """
        if self._limit is None or self._count < self._limit:
            self._start(crew)
            return True
        for other in self._crews.values():
            if other is not crew and other.needs < 0:
                other.dismiss_one()
                return False
        return False

    def _start(self, crew: Crew) -> None:
        child = crew.new_child()
        self._count += 1
        self._group.create_task(child.tend()).add_done_callback(lambda _: self._gone(crew, child))
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._idle_seconds, self._dismiss_idle)

    def _gone(self, crew: Crew, child: ChildProcess) -> None:
        self._count -= 1
        crew.gone(child)
        if not self._is_closing:
            self._make_up()

    def _freed(self) -> None:
        if self._behind or len(self._crews) > 1:
            self._make_up()

    def _make_up(self) -> None:
        self._hand_on()
        for crew in self._crews.values():
            for _ in range(crew.needs):
                if not self._strengthen(crew):
                    break

    def _dismiss_idle(self) -> None:
        """Those that there were more of than calls, all the time since the last look."""
        self._sweep = None
        for crew in self._crews.values():
            for _ in range(min(crew.strength - crew.most, -crew.needs)):
                crew.dismiss_one()
            crew.most = max(crew.needs + crew.strength, 0)
        if self._count:
            self._sweep = self._loop.call_later(self._idle_seconds, self._dismiss_idle)

    def _look_at_calls(self) -> None:
        self._look, now = None, monotonic()
        is_late = False
        for crew in self._crews.values():
            is_late |= crew.release_late(now - self._patience)
        while self._behind and self._behind[0][1].since <= now - self._patience:
            self._behind.popleft()[1].give(EndWith(Released()))
            is_late = True
        if is_late:
            self._on_late()
        unbegun = [call for crew in self._crews.values() for call in crew.unbegun()]
        for call in unbegun:
            if call.on_slow is not None and now >= call.since + _SLOW_SECONDS:
                call.on_slow()
                call.on_slow = None
        if unbegun or self._behind:
            self._look = self._loop.call_later(min(self._patience, _LOOK_SECONDS), self._look_at_calls)
