"""Branches of a flow that run at the same time. A branch that has to wait is held here until no branch can go
on; then the flow waits for everything at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any

from holdfast.storage.flows import Wait, Waited

Answers = dict[str, Waited]
WaitFor = Callable[[list[Wait]], Awaitable[Answers]]

_here: ContextVar["Branches | None"] = ContextVar("holdfast_branches", default=None)


_lane: ContextVar["tuple[str | None, asyncio.Task[Any] | None]"] = ContextVar(
    "holdfast_lane", default=(None, None)
)


def here() -> "Branches | None":
    """The gather whose branch this code runs in, if any."""
    return _here.get()


def lane_here() -> str | None:
    """The lane of the branch that this code runs in; None in a task that a branch started itself."""
    lane, task = _lane.get()
    return lane if asyncio.current_task() is task else None


class Branches:
    """`is_eager`: the first failure cuts the others short. So do those around it, if they are eager."""

    def __init__(self, wait_for: WaitFor, *, is_eager: bool) -> None:
        self._wait_for = wait_for
        self._is_eager = is_eager
        outer = here()
        self.may_be_cut: bool = is_eager or (outer is not None and outer.may_be_cut)
        self._held: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        self.cut: list[int] = []
        self._blocked: dict[asyncio.Task[Any], tuple[list[Wait], asyncio.Future[Answers]]] = {}
        self._stirred = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []

    async def block(self, waits: list[Wait]) -> Answers:
        """Called in a branch: wait until one of these is over."""
        answer: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"  # noqa: S101  # a mistake of this package
        self._blocked[task] = waits, answer
        self._stirred.set()
        try:
            return await answer
        finally:
            self._blocked.pop(task, None)

    async def hold(self) -> None:
        """Called in a branch that an earlier run seems to have cut short: wait until the other branches have
        done what they can and none of them has cut this one.
        """
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"  # noqa: S101  # a mistake of this package
        released = self._held[task] = asyncio.get_running_loop().create_future()
        self._stirred.set()
        try:
            await released
        finally:
            self._held.pop(task, None)

    async def run(
        self, branches: Sequence[Awaitable[Any]], lanes: Sequence[str | None]
    ) -> list[Any | BaseException]:
        """The value of each branch, or what it raised. `cut` lists those that were cut short."""
        self._tasks = [
            asyncio.create_task(self._branch(branch, lane))
            for branch, lane in zip(branches, lanes, strict=True)
        ]
        for task in self._tasks:
            task.add_done_callback(lambda _: self._stirred.set())
        try:
            while running := [task for task in self._tasks if not task.done()]:
                if self._is_eager and any(task.done() and task.exception() for task in self._tasks):
                    self.cut = [number for number, task in enumerate(self._tasks) if not task.done()]
                    break
                if all(task in self._blocked or task in self._held for task in running):
                    await (self._release() if self._held else self._resolve())
                else:
                    await self._stirred.wait()
                self._stirred.clear()
        finally:
            for task in self._tasks:
                task.cancel()
            ended = await asyncio.gather(*self._tasks, return_exceptions=True)
            for branch in branches:
                if isinstance(branch, Coroutine):
                    branch.close()  # or Python warns of one that was stopped before its first line
        return ended

    async def _release(self) -> None:
        """Let the held branches go on: no branch of this group has cut them short. If the group is in a
        branch that may have been cut short, that one is held first.
        """
        outer = here()
        if outer is not None and outer.may_be_cut:
            await outer.hold()
        for released in list(self._held.values()):
            if not released.done():
                released.set_result(None)

    async def _branch(self, branch: Awaitable[Any], lane: str | None) -> Any:
        _here.set(self)
        _lane.set((lane, asyncio.current_task()))
        return await branch

    async def _resolve(self) -> None:
        """No branch can go on: ask for all waits at once, and let those branches go on whose wait is over."""
        blocked = list(self._blocked.items())
        answers = await self._wait_for([wait for _, (waits, _) in blocked for wait in waits])
        for task, (waits, answer) in blocked:
            own = {wait.name: answers[wait.name] for wait in waits if wait.name in answers}
            if any(answered.status in ("done", "late") for answered in own.values()) and not answer.done():
                del self._blocked[task]
                answer.set_result(own)
