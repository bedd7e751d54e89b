"""Run services around a block: indentation shows which service outlives which."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol


class Service(Protocol):
    async def run(self) -> None:
        """Serve until cancelled. An error ends the block that this service serves."""


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[None]:
    """Run services around a block. If one of them fails, the block is cancelled; when the block is left, they
    are. A single error is raised as it is, not in a group, so that the caller can tell errors apart.
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
    """Leave the block as soon as `by` returns. The function that the block gets tells afterwards whether it
    was left for that reason.
    """
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


async def through_cancellation(work: Coroutine[Any, Any, None]) -> None:
    """Await the last work of a service, which bounds its own time. If the service is cancelled again
    meanwhile, that is raised after the work: `asyncio.shield` would leave it to run on, without an owner,
    while the connections that it uses are closed.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


class Alarm:
    """A sleep that another task can end, for one sleeper. A ring before the sleep ends it at once."""

    def __init__(self) -> None:
        self._is_rung = False
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        if not self._is_rung:  # each job that ends rings
            self._is_rung = True
            self._end()

    async def sleep(self, seconds: float) -> bool:
        """Sleep until it rings or the time is up. True if it rang."""
        if not self._is_rung:
            loop = asyncio.get_running_loop()
            # Takes half the time of asyncio.timeout with an Event, and the first job after a quiet time
            # waits for this to end.
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
