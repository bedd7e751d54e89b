"""Gathers single writes into batches: while one statement is under way, the next batch gathers. So a lone
caller does not wait, and a thousand callers share a commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from holdfast.errors import StatementFailed

T = TypeVar("T")
A = TypeVar("A")

BATCH = 500


class Batcher(Generic[T, A]):
    """`write` takes a batch, and returns one answer for each of its items, in their order.

    `at_once` batches are under way at most, each on a connection of its own: while one commit waits for the
    disk, the next is prepared. `fitting` says how many of the waiting items, at least one, fit into a batch.
    """

    def __init__(
        self,
        write: Callable[[list[T]], Awaitable[Sequence[A]]],
        *,
        at_once: int = 1,
        fitting: Callable[[Sequence[T]], int] = lambda _: BATCH,
    ) -> None:
        self._write = write
        self._at_once = at_once
        self._fitting = fitting
        self._gathering: list[tuple[T, asyncio.Future[A]]] = []
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, item: T) -> A:
        """The item is committed when this returns. A caller that is cancelled before its batch is sent has
        written nothing; one that is cancelled later cannot know.
        """
        if self._under_way >= self._at_once:
            answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
            self._gathering.append((item, answer))
            return await answer
        self._under_way += 1
        self._idle.clear()
        try:
            return (await self._write([item]))[0]
        finally:
            self._go_on()

    async def finish(self) -> None:
        """Wait until every item is written or refused."""
        await self._idle.wait()

    def _go_on(self) -> None:
        """In a task of its own: the first caller has no reason to wait for the callers after it."""
        if self._gathering:
            task = asyncio.get_running_loop().create_task(self._write_gathered())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._end()

    def _end(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    async def _write_gathered(self) -> None:
        batch: list[tuple[T, asyncio.Future[A]]] = []
        try:
            while batch := self._next_batch():
                await self._answer(batch)
                # A caller that was just answered may have its next item ready: that one comes along.
                await asyncio.sleep(0)
        finally:
            # Anything is left only when the event loop is about to end: nothing will write it.
            left, self._gathering = [*batch, *self._gathering], []
            for _, answer in left:
                answer.cancel()
            self._end()

    def _next_batch(self) -> list[tuple[T, "asyncio.Future[A]"]]:
        waiting = [each for each in self._gathering if not each[1].done()]
        count = self._fitting([item for item, _ in waiting]) if waiting else 0
        batch, self._gathering = waiting[:count], waiting[count:]
        return batch

    async def _answer(self, batch: list[tuple[T, "asyncio.Future[A]"]]) -> None:
        try:
            answers = await self._write([item for item, _ in batch])
        except StatementFailed as error:
            if len(batch) == 1:
                _refuse(batch, error)
            else:
                # Postgres refuses one of these items. Each goes alone now, so that the others are written.
                for each in batch:
                    await self._answer([each])
        except Exception as error:  # noqa: BLE001  # raised where the items came from
            _refuse(batch, error)
        else:
            for (_, answer), given in zip(batch, answers, strict=True):
                if not answer.done():
                    answer.set_result(given)


def _refuse(batch: list[tuple[T, "asyncio.Future[A]"]], error: Exception) -> None:
    for _, answer in batch:
        if not answer.done():
            answer.set_exception(error)
