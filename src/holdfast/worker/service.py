"""Services that outlive others, shown by indentation: each runs until the block that it serves is left."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol


class Service(Protocol):
    async def run(self) -> None:
        """Serve until cancelled. Leaving by itself or by an error ends everything that it serves."""


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[None]:
    """Run services around a block. It is cancelled when one of them fails, and they when it is left. What
    failed alone is raised as it is, so that whoever starts a worker can tell one error from another.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(service.run(), name=type(service).__name__) for service in services]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as several:
        if len(several.exceptions) > 1:
            raise
        alone = several.exceptions[0]
        raise alone from alone.__cause__


@asynccontextmanager
async def cut_short(by: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[Callable[[], bool]]:
    """Leave the block as soon as `by` returns; answers afterwards whether that was so."""
    bound = asyncio.timeout(None)

    async def cut() -> None:
        await by()
        bound.reschedule(0)

    try:
        async with bound:
            cutting = asyncio.create_task(cut())
            try:
                yield bound.expired
            finally:
                cutting.cancel()
    except TimeoutError:
        if not bound.expired():
            raise


class Alarm:
    """Sleep that others can end, for one sleeper: a wake-up that comes before the sleep ends it at once."""

    def __init__(self) -> None:
        self._is_rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._is_rung = True
        self._end()

    async def sleep(self, seconds: float) -> bool:
        """Whether it was rung, and not only time that passed."""
        if not self._is_rung:
            loop = asyncio.get_running_loop()
            # In half the time of asyncio.timeout and an Event: a lone job waits for this to end.
            self._sleeper = loop.create_future()
            timer = loop.call_later(seconds, self._end)
            try:
                await self._sleeper
            finally:
                timer.cancel()
                self._sleeper = None
        is_rung, self._is_rung = self._is_rung, False
        return is_rung

    def _end(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)
