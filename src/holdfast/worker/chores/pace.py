"""How a chore is repeated: at once while there is more, then after waits that grow while there is nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.postgres.failure_log import FailureLog
from holdfast.telemetry.events import ChoreDid, ChoreFailed, Emitter
from holdfast.worker.service import Alarm
from holdfast.worker.wake_ups import ALWAYS_HEARD, WakeUps


@dataclass(frozen=True, slots=True)
class Did:
    """What one turn of a chore did: how many rows, whether there is more at once, and when to look again.

    `again_in` nothing: something is due that this turn could not take, since somebody else has it locked.
    """

    count: int = 0
    is_more: bool = False
    again_in: float | None = None


_LOCKED_ELSEWHERE = 0.02

_log = logging.getLogger("holdfast.worker")


class Chore:
    """One chore. Tests call `once`; the leader runs `run`."""

    def __init__(
        self,
        name: str,
        once: Callable[[], Awaitable[Did]],
        emitter: Emitter,
        *,
        shortest: float,
        longest: float,
        is_woken: bool = False,
        fills_ready: bool = False,
    ) -> None:
        """`is_woken`: notifications tell it to look, so without them it looks at every poll. `fills_ready`:
        what it moves may be claimed at once.
        """
        self.name = name
        self.fills_ready = fills_ready
        self._is_woken = is_woken
        self.once = once
        self.alarm = Alarm()
        self._emitter = emitter
        self._shortest = shortest
        self._longest = longest
        self._failures = FailureLog(_log, f"chore {name}")

    async def run(
        self, wake_ups: WakeUps = ALWAYS_HEARD, on_filled: Callable[[], None] = lambda: None
    ) -> None:
        if not self._is_woken:
            wake_ups = ALWAYS_HEARD
        wait = self._shortest
        while True:
            try:
                did = await self.once()
            except Exception as error:  # noqa: BLE001  # reported; a chore that ends takes the others along
                self._failures.failed(error)
                self._emitter.emit(ChoreFailed(self.name, error))
                await self.alarm.sleep(min(2.0, self._longest))
                continue
            self._failures.worked()
            if did.count:
                self._emitter.emit(ChoreDid(self.name, did.count))
                if self.fills_ready:
                    on_filled()
            if did.is_more:
                await asyncio.sleep(0)
                continue
            wait = self._shortest if did.count else min(wait * 4, self._longest)
            exact = wait if did.again_in is None else min(did.again_in, self._longest)
            await wake_ups.sleep(self.alarm, exact or _LOCKED_ELSEWHERE)
