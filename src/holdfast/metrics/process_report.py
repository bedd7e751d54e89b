"""What one worker process tells of itself: its figures and its health. Read by a thread that is not the event
loop's, so that a blocked loop is told of too.
"""

import asyncio
import os
from collections.abc import Callable
from datetime import timedelta
from time import monotonic

import msgspec

from holdfast.metrics.catalogue import (
    BATCH_SIZES,
    DATABASE_UP,
    LEADING,
    LISTENING,
    LOOP_LAG,
    PROCESSES,
    SECONDS,
    SETTLE_BATCH,
    SLOTS,
    SLOTS_USED,
    UNSETTLED,
    WORKING,
)
from holdfast.metrics.event_counter import EventCounter
from holdfast.metrics.figures import Distribution, Figures
from holdfast.metrics.probes import ProcessHealth, what_is_wrong, why_unready
from holdfast.worker.vitals import Vitals

_BEAT_SECONDS = 0.5


class ProcessReport(msgspec.Struct):
    """`answers` is how many questions of the supervisor were read before. `database` is what was asked of the
    database, if this process was told to ask.
    """

    health: ProcessHealth
    figures: Figures
    answers: int = 0
    database: Figures | None = None


class ProcessReporter:
    """Of one process. `bound`: for how long the event loop or the lease keeper may be stuck."""

    def __init__(self, counter: EventCounter, bound: timedelta) -> None:
        self._counter = counter
        self._bound = bound.total_seconds()
        self._loop_beat_at = monotonic()
        self._lags = Distribution.over(SECONDS)
        self._vitals: Callable[[], Vitals | None] = lambda: None

    async def watch(self, vitals: Callable[[], Vitals | None]) -> None:
        """On the worker's event loop: beat, and measure how late each beat comes."""
        self._vitals = vitals
        while True:
            self._loop_beat_at = monotonic()
            await asyncio.sleep(_BEAT_SECONDS)
            late = monotonic() - self._loop_beat_at - _BEAT_SECONDS
            self._lags.add(SECONDS, max(late, 0.0))

    def health(self) -> ProcessHealth:
        return self._health(self._vitals())

    def report(self) -> ProcessReport:
        vitals = self._vitals()
        health = self._health(vitals)
        figures = self._counter.figures()
        figures.add_distribution(LOOP_LAG, self._lags)
        figures.add(PROCESSES, 1)
        figures.add(WORKING, 0 if health.unready else 1)
        if vitals is not None:
            _add_vitals(figures, vitals)
        return ProcessReport(health, figures)

    def _health(self, vitals: Vitals | None) -> ProcessHealth:
        wrong = what_is_wrong(vitals, loop_beat_at=self._loop_beat_at, now=monotonic(), bound=self._bound)
        return ProcessHealth(os.getpid(), wrong, why_unready(vitals))


def _add_vitals(figures: Figures, vitals: Vitals) -> None:
    for queue, (used, limit) in vitals.slots.items():
        figures.add(SLOTS, limit, queue)
        figures.add(SLOTS_USED, used, queue)
    batches = Distribution.over(BATCH_SIZES)
    for size, times in vitals.settled_batches.items():
        batches.add(BATCH_SIZES, size, times)
    figures.add_distribution(SETTLE_BATCH, batches)
    figures.add(UNSETTLED, vitals.unsettled)
    figures.add(LEADING, vitals.is_leader)
    figures.add(LISTENING, vitals.is_listening)
    figures.add(DATABASE_UP, not vitals.is_database_lost)
