"""The leader's own chores while a measure runs: the ring turns, what nobody can take is parked, counts are
folded. One pass is `once`; `leading` repeats it in a thread.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from benchmarks.session import SCHEMA
from holdfast.postgres.database import Database
from holdfast.storage.session import SETTINGS
from holdfast.worker.chores.counter_folder import CounterFolder
from holdfast.worker.chores.job_unparker import JobUnparker
from holdfast.worker.chores.ring_turner import RingTurner

PERIOD = 0.2
_SLOW = 1.0


class Leader:
    """Blocking, for measures without an event loop. Of the thread that made it."""

    def __init__(self, dsn: str) -> None:
        self._runner = asyncio.Runner()
        self._database = Database(dsn, session=SETTINGS)
        self._turner = RingTurner(self._database, SCHEMA)
        self._slow = (JobUnparker(self._database, SCHEMA), CounterFolder(self._database, SCHEMA))
        self._slow_at = 0.0

    def __enter__(self) -> Self:
        self._runner.run(self._database.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._database.__aexit__(kind, error, trace))
        finally:
            self._runner.close()

    def once(self) -> None:
        self._runner.run(self._once())

    async def _once(self) -> None:
        await self._turner.once()
        if time.monotonic() >= self._slow_at:
            self._slow_at = time.monotonic() + _SLOW
            for chore in self._slow:
                while (await chore.once()).is_more:
                    pass


@contextmanager
def leading(dsn: str, period: float = PERIOD) -> Iterator[None]:
    """Lead in a thread of its own until the block ends. What went wrong there is raised here."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def lead() -> None:
        try:
            with Leader(dsn) as leader:
                while not stop.wait(period):
                    leader.once()
        except BaseException as error:  # noqa: BLE001  # raised by whoever waits for the thread
            failures.append(error)

    thread = threading.Thread(target=lead, name="leader")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    if failures:
        raise failures[0]
