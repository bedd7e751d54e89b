"""Does what operators ask of this worker: be quiet, go on, stop, run more or fewer jobs of a queue at once.

A heartbeat brings what is asked, as a state and not as a command, so that none is missed and none is done
twice. The next heartbeat says what this worker does by then.
"""

import json
from collections.abc import Callable

from holdfast.domain.steering import Activity
from holdfast.storage.runs import Heartbeat
from holdfast.telemetry.events import Emitter, SlotsChanged, StopAsked, WorkerQuietened
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.service import Alarm
from holdfast.worker.slots import Slots
from holdfast.worker.stopping import Stopping

_UNTIL_RUNG = 3600.0


class Steering:
    """A service of the event loop. `activity` and `queue_slots` are read by the lease keeper's thread."""

    def __init__(
        self,
        fetcher: Fetcher,
        slots: Slots,
        stopping: Stopping,
        emitter: Emitter,
        *,
        running: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` has the next heartbeat sent at once."""
        self._fetcher = fetcher
        self._slots = slots
        self._stopping = stopping
        self._emitter = emitter
        self._running = running
        self._on_change = on_change
        self._alarm = Alarm()
        self._news: Heartbeat | None = None
        self._worker = 0
        self._is_quiet = False

    @property
    def activity(self) -> Activity:
        """`quiet` only once no claim is under way: from then on no job begins here."""
        if self._stopping.draining.is_set():
            return "stopping"
        return "quiet" if self._is_quiet else "working"

    @property
    def queue_slots(self) -> tuple[int, ...]:
        return self._slots.numbers

    def heard(self, worker: int, news: Heartbeat) -> None:
        """What the last heartbeat has brought."""
        self._worker, self._news = worker, news
        self._change_slots(news)
        if news.asked_activity in ("stop", "hurry"):
            self._stop(news)
        elif (news.asked_activity == "quiet") != self._is_quiet:
            self._alarm.ring()

    async def run(self) -> None:
        while True:
            await self._alarm.sleep(_UNTIL_RUNG)
            asked = self._news.asked_activity if self._news else None
            if asked == "quiet":
                await self._fetcher.quieten()
                self._become(is_quiet=True)
            elif asked is None:
                self._fetcher.go_on()
                self._become(is_quiet=False)

    def _become(self, *, is_quiet: bool) -> None:
        if self._is_quiet != is_quiet:
            self._is_quiet = is_quiet
            by, reason = (self._news.asked_by, self._news.asked_reason) if self._news else (None, None)
            self._emitter.emit(WorkerQuietened(self._worker, is_quiet, self._running(), by, reason))
            self._on_change()

    def _stop(self, news: Heartbeat) -> None:
        is_now = news.asked_activity == "hurry"
        is_news = not self._stopping.hurried.is_set() if is_now else not self._stopping.draining.is_set()
        if is_news:
            event = StopAsked(self._worker, is_now, self._running(), news.asked_by, news.asked_reason)
            self._emitter.emit(event)
            self._stopping.ask_for_operator(news.asked_grace, is_now=is_now)

    def _change_slots(self, news: Heartbeat) -> None:
        asked = json.loads(news.asked_slots or "{}")
        for queue, number in asked.items():
            before = self._slots.limit(queue)
            if before is not None and before != number:
                self._slots.change(queue, number)
                self._fetcher.wake(queue)
                self._emitter.emit(SlotsChanged(self._worker, queue, number, before))
                self._on_change()
