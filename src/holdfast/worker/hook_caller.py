"""Calls the hooks of users beside other attempts, those of one job in order. A hook that fails never fails a
job.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.telemetry.events import Emitter, HookFailed
from holdfast.worker.claimed_run import ClaimedRun

HookCall = tuple[str, Callable[..., Any] | None, tuple[object, ...]]
"""The hook's name, the hook if there is one, and its arguments."""


class HookCaller:
    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[None]] = set()

    async def ended(self) -> None:
        """Wait until every hook has run."""
        while self._running:
            await asyncio.wait(self._running)

    def soon(self, claimed: ClaimedRun, *calls: HookCall) -> None:
        if any(hook for _, hook, _ in calls):
            task = self._loop.create_task(self._in_turn(claimed, calls))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def call(self, name: str, claimed: ClaimedRun, hook: Callable[..., Any], *args: object) -> None:
        try:
            answer = hook(*args)
            if inspect.isawaitable(answer):
                await answer
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # reported
            self._emitter.emit(HookFailed(name, claimed.row.kind, claimed.job, error))

    async def _in_turn(self, claimed: ClaimedRun, calls: Sequence[HookCall]) -> None:
        for name, hook, args in calls:
            if hook is not None:
                await self.call(name, claimed, hook, *args)
