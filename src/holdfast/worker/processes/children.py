"""The child processes of a worker: idle ones are used before new ones start, and end after a while."""

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Self

from holdfast.worker.processes.child_process import DEATH_SECONDS, ChildProcess

IDLE_SECONDS = 60.0


class Children:
    """Shared by all kinds with the same memory limit, or none. Their tasks are in a group, and never fail.
    No child is left when its `async with` block ends.
    """

    def __init__(self, limit: int | None, idle: float) -> None:
        self._limit = limit
        self._idle_seconds = idle
        self._group = asyncio.TaskGroup()
        self._children: set[ChildProcess] = set()
        self._idle: list[tuple[ChildProcess, float]] = []
        self._sweep: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._idle.clear()
        for child in self._children:
            child.kill()
        # The group is not told of the block's own error, which it would wrap: its tasks end because they
        # are killed.
        await self._group.__aexit__(None, None, None)

    async def make_room(self, memory_limit: int | None) -> None:
        """If there are as many children as allowed, kill an idle one with another memory limit."""
        if self._limit is None or len(self._children) < self._limit:
            return
        if any(child.is_fit and child.memory_limit == memory_limit for child, _ in self._idle):
            return
        for place, (child, _) in enumerate(self._idle):
            if child.is_fit:
                del self._idle[place]
                child.kill()
                with suppress(TimeoutError):
                    async with asyncio.timeout(DEATH_SECONDS):
                        await child.gone.wait()
                return

    def take(self, memory_limit: int | None) -> ChildProcess:
        """Take the child that was used last, so that children in excess stay idle and end."""
        for place in reversed(range(len(self._idle))):
            child, _ = self._idle[place]
            if child.memory_limit == memory_limit or not child.is_fit:
                del self._idle[place]
                if child.is_fit:
                    return child
        child = ChildProcess(memory_limit)
        self._children.add(child)
        self._group.create_task(child.tend()).add_done_callback(lambda _: self._children.discard(child))
        return child

    def give_back(self, child: ChildProcess) -> None:
        if child.is_fit:
            self._idle.append((child, monotonic()))
            if self._sweep is None:
                self._sweep = self._loop.call_later(self._idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        """One timer for all children, as each goes idle after every call."""
        self._sweep, now = None, monotonic()
        ended = [each for each in self._idle if now >= each[1] + self._idle_seconds]
        self._idle = [each for each in self._idle if each not in ended]
        for child, _ in ended:
            child.kill()
        if self._idle:
            first = min(since for _, since in self._idle)
            self._sweep = self._loop.call_later(first + self._idle_seconds - now, self._end_idle)
