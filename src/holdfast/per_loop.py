"""What each event loop has of its own, made at its first use."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._made: dict[asyncio.AbstractEventLoop, asyncio.Task[T]] = {}

    def __bool__(self) -> bool:
        """Whether any event loop has one."""
        return bool(self._made)

    async def get(self) -> T:
        """The one of this event loop. The first caller makes it while the others wait."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._forget_ended_loops()
            self._made[loop] = loop.create_task(self._begin())
        making = self._made[loop]
        if making.done() and not making.cancelled() and making.exception() is None:
            return making.result()  # always, except for the first time
        try:
            return await asyncio.shield(making)
        except Exception:
            # Only the first caller that sees the error: another may have begun to make it again meanwhile.
            if self._made.get(loop) is making:
                del self._made[loop]
            raise

    async def take(self) -> T | None:
        """The one of this event loop, which has none from now on."""
        self._forget_ended_loops()
        making = self._made.pop(asyncio.get_running_loop(), None)
        return None if making is None else await making

    async def _begin(self) -> T:
        return await self._make()

    def _forget_ended_loops(self) -> None:
        """What they had ended with them. Over a copy: other threads make and take here too."""
        for loop in list(self._made):
            if loop.is_closed():
                self._made.pop(loop, None)
