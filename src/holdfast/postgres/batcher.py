"""Writes in batches: while one is under way the next one gathers, so a lone flow waits for nobody and a
thousand of them share a commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from holdfast.errors import StatementFailed

T = TypeVar("T")
A = TypeVar("A")

BATCH = 500


class Batcher(Generic[T, A]):
    """`write` takes a batch and gives an answer for each, in their order."""

    def __init__(self, write: Callable[[list[T]], Awaitable[Sequence[A]]]) -> None:
        self._write = write
        self._gathering: list[tuple[T, asyncio.Future[A]]] = []
        self._is_busy = False
        self._task: asyncio.Task[None] | None = None

    async def put(self, item: T) -> A:
        """Committed when it returns. Who is cancelled meanwhile does not know whether it was."""
        if self._is_busy:
            answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
            self._gathering.append((item, answer))
            return await answer
        self._is_busy = True
        try:
            return (await self._write([item]))[0]
        finally:
            self._go_on()

    def _go_on(self) -> None:
        """A task of its own from here on: whoever was first has no reason to wait for the others."""
        if self._gathering:
            self._task = asyncio.get_running_loop().create_task(self._run())
        else:
            self._is_busy = False

    async def _run(self) -> None:
        batch: list[tuple[T, asyncio.Future[A]]] = []
        try:
            while self._gathering:
                batch, self._gathering = self._gathering[:BATCH], self._gathering[BATCH:]
                await self._answer([each for each in batch if not each[1].done()])
        finally:
            self._is_busy = False
            # Only when the event loop is about to end, with items that nobody will write.
            for _, answer in (*batch, *self._gathering):
                answer.cancel()

    async def _answer(self, batch: list[tuple[T, "asyncio.Future[A]"]]) -> None:
        if not batch:
            return
        try:
            answers = await self._write([item for item, _ in batch])
        except StatementFailed as error:
            if len(batch) == 1:
                _refuse(batch, error)
            else:
                # Postgres refuses something in this batch: whoever it is, it is nobody else's fault.
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
