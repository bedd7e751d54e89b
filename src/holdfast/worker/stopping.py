"""How a worker is asked to stop: once to drain, twice to stop at once; by its process, or by an operator."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any


class Stopping:
    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.hurried = asyncio.Event()
        self.is_asked_by_operator = False
        self.grace: timedelta | None = None

    def ask(self) -> None:
        """The first time asks to drain, the second time to hurry."""
        if self.draining.is_set():
            self.hurried.set()
        self.draining.set()

    def ask_for_operator(self, grace: timedelta | None, *, is_now: bool) -> None:
        """`grace`: how long running jobs may go on, in place of the worker's own."""
        self.is_asked_by_operator = True
        self.grace = grace
        if is_now:
            self.hurried.set()
        self.draining.set()

    @property
    def patience(self) -> timedelta:
        """How long each last statement may take. What it leaves undone is rescued when the lease ends."""
        return timedelta(seconds=3 if self.hurried.is_set() else 10)

    async def unless_hurried(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for something, or until the worker is asked to stop at once."""
        tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(self.hurried.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
