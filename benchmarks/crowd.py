"""Producers and claiming workers at once, each a process of its own, and how many jobs they finish.

Processes, since threads would measure Python's lock. They ignore Ctrl-C, which the parent answers for all.
"""

import multiprocessing
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.context import SpawnProcess
from typing import Any

from benchmarks.leader import leading
from benchmarks.session import SCHEMA, Session
from benchmarks.snapshot import enqueueing, pinned
from holdfast.storage import runs

CLAIMERS = 4
PRODUCERS = 2
# Enough for all claimers to be busy, few enough for all to be claimed soon after they were enqueued.
_BACKLOG = 10_000
_CHUNK = 500
_WARM_UP = 2.0
_BEAT = 5.0
_LEASE = timedelta(seconds=30)
_PATIENCE = 60.0

_spawn = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Shared:
    """Counts that all processes see; each slot has one writer. Of the finished, a slot for each second."""

    produced: Any
    finished: Any
    by_second: Any
    ready: Any
    begin_at: Any
    seconds: int

    @classmethod
    def make(cls, seconds: int) -> "Shared":
        return cls(
            produced=_spawn.RawArray("q", PRODUCERS),
            finished=_spawn.RawArray("q", CLAIMERS),
            by_second=[_spawn.RawArray("q", seconds) for _ in range(CLAIMERS)],
            ready=_spawn.Semaphore(0),
            begin_at=_spawn.RawValue("d", float("inf")),
            seconds=seconds,
        )

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= float(self.begin_at.value) + self.seconds

    def note(self, number: int, jobs: int) -> None:
        self.finished[number] += jobs
        elapsed = time.monotonic() - self.begin_at.value
        if 0 <= elapsed < self.seconds:
            self.by_second[number][int(elapsed)] += jobs


@dataclass(frozen=True, slots=True)
class Ran:
    """Jobs finished in each second; how often the ring changed meanwhile, and how many jobs are put aside."""

    by_second: list[int]
    changes: int
    parked: int

    @property
    def rate(self) -> float:
        return sum(self.by_second) / len(self.by_second)

    def first(self, window: int) -> float:
        return sum(self.by_second[:window]) / window

    def last(self, window: int) -> float:
        return sum(self.by_second[-window:]) / window


def run(dsn: str, seconds: int) -> Ran:
    """All at once, with a pinned snapshot and a caller's transaction that stays open throughout."""
    shared = Shared.make(seconds)
    with pinned(dsn), enqueueing(dsn), leading(dsn), _crowd(dsn, shared) as crowd:
        for _ in crowd:
            if not shared.ready.acquire(timeout=_PATIENCE):
                raise RuntimeError("a process of the crowd did not get ready")
        shared.begin_at.value = time.monotonic() + min(_WARM_UP, seconds)
        deadline = shared.begin_at.value + seconds + _PATIENCE
        for process in crowd:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode != 0:
                raise RuntimeError(f"{process.name} ended with {process.exitcode}")
    totals = [sum(those[second] for those in shared.by_second) for second in range(seconds)]
    with Session.on(dsn) as session:
        [(changes, parked)] = session.ask(
            "select version, (select count(*) from {schema}.ready_parked) from {schema}.ring"
        )
    return Ran(totals, changes, parked)


@contextmanager
def _crowd(dsn: str, shared: Shared) -> Iterator[list[SpawnProcess]]:
    crowd = [
        _spawn.Process(target=act, args=(dsn, shared, number), name=f"{act.__name__}-{number}", daemon=True)
        for act, how_many in ((_produce, PRODUCERS), (_work, CLAIMERS))
        for number in range(how_many)
    ]
    try:
        for process in crowd:
            process.start()
        yield crowd
    finally:
        for process in crowd:
            if process.is_alive():
                process.kill()
        for process in crowd:
            if process.pid is not None:
                process.join(5)


def _produce(dsn: str, shared: Shared, number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Session.on(dsn) as session:
        shared.ready.release()
        while not shared.is_over:
            if sum(shared.produced) - sum(shared.finished) > _BACKLOG:
                time.sleep(0.002)
                continue
            session.enqueue(_CHUNK)
            shared.produced[number] += _CHUNK


def _work(dsn: str, shared: Shared, number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Session.on(dsn) as session:
        worker, closed, beat_at = session.worker(), None, time.monotonic()
        shared.ready.release()
        while not shared.is_over:
            rows = session.claim(worker, closed)
            closed = rows[0].closed
            if rows[0].job is None:
                time.sleep(0.002)
                continue
            held = [row.run for row in rows]
            if time.monotonic() >= beat_at + _BEAT:
                beat_at = time.monotonic()
                session.run(runs.renew(SCHEMA, worker=worker, lease=_LEASE, runs=held))
            shared.note(number, len(session.settle(worker, rows)))
