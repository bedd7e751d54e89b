"""Notices from another thread that the event loop is blocked, and reports by which job."""

import asyncio
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic

from holdfast.telemetry.events import Emitter, LoopBlocked
from holdfast.worker.claimed_run import ClaimedRun

LOOK_SECONDS = 0.25
_BLOCKED_SECONDS = 1.0
_QUIET_SECONDS = 10.0
_SHOWN = 5


class LoopWatch:
    """Made on the event loop; `look` is called from the lease keeper's thread, every LOOK_SECONDS."""

    def __init__(self, running: Callable[[], Sequence[ClaimedRun]], emitter: Emitter) -> None:
        self._running = running
        self._emitter = emitter
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._is_answered = True
        self._looked_at = monotonic()
        self._unanswered = 0.0
        self._quiet_until = 0.0

    def look(self) -> None:
        """Ask the loop for an answer while anything runs, and count how long the answer takes. Only time
        during which this thread ran counts: a process that was frozen as a whole is not blocked.
        """
        now = monotonic()
        seen, self._looked_at = min(now - self._looked_at, 2 * LOOK_SECONDS), now
        if not self._is_answered:
            self._unanswered += seen
            if self._unanswered >= _BLOCKED_SECONDS and now >= self._quiet_until:
                self._quiet_until = now + _QUIET_SECONDS
                self._say()
        elif self._running():
            self._is_answered, self._unanswered = False, 0.0
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._is_answered = True

    def _say(self) -> None:
        running = self._running()
        task = asyncio.current_task(self._loop)
        by = next((claimed.fact for claimed in running if claimed.task is task), None)
        names = [f"{claimed.row.kind} {claimed.job}" for claimed in running[:_SHOWN]]
        if len(running) > _SHOWN:
            names.append(f"and {len(running) - _SHOWN} more")
        lasting = timedelta(seconds=self._unanswered)
        self._emitter.emit(LoopBlocked(lasting, by, tuple(names), self._place()))

    def _place(self) -> str | None:
        """Where the loop's thread is right now."""
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  # its documented name
        if frame is None:
            return None
        code = frame.f_code
        return f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"
