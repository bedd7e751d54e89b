"""Repeats one chore: at once while there is more to do, then after waits that grow while there is nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from holdfast.postgres.failure_log import FailureLog
from holdfast.telemetry.events import ChoreDid, ChoreFailed, Emitter
from holdfast.worker.chores.chore import Chore, Did, WakeUp
from holdfast.worker.service import Alarm
from holdfast.worker.wake_ups import ALWAYS_HEARD, WakeUps

_LOCKED_ELSEWHERE = 0.02
_AFTER_FAILURE = 2.0

_log = logging.getLogger("holdfast.worker")


class ChoreLoop:
    """The leader calls `run`; tests call `once`."""

    def __init__(
        self, chore: Chore, once: Callable[[], Awaitable[Did]], emitter: Emitter, lease: timedelta
    ) -> None:
        self.chore = chore
        self.once = once
        self._alarm = Alarm()
        self._emitter = emitter
        self._shortest, self._longest = chore.pace(lease)
        self._failures = FailureLog(_log, f"chore {chore.name}")

    def wake(self, by: WakeUp) -> None:
        """Look at once, if the chore declares that this wakes it."""
        if by in self.chore.woken_by:
            self._alarm.ring()

    async def run(
        self, wake_ups: WakeUps = ALWAYS_HEARD, on_did: Callable[[Chore], None] = lambda _: None
    ) -> None:
        """`on_did` is called after each turn that did something."""
        if not self.chore.polls_unheard:
            wake_ups = ALWAYS_HEARD
        wait = self._shortest
        while True:
            try:
                did = await self.once()
            except Exception as error:  # noqa: BLE001  # reported; a chore that ends takes the others along
                self._failures.failed(error)
                self._emitter.emit(ChoreFailed(self.chore.name, error))
                await self._alarm.sleep(min(_AFTER_FAILURE, self._longest))
                continue
            self._failures.worked()
            if did.count:
                self._emitter.emit(ChoreDid(self.chore.name, did.count))
                on_did(self.chore)
            if did.is_more:
                await asyncio.sleep(0)
                continue
            wait = self._shortest if did.count else min(wait * 4, self._longest)
            exact = wait if did.again_in is None else min(did.again_in, self._longest)
            await wake_ups.sleep(self._alarm, exact or _LOCKED_ELSEWHERE)
