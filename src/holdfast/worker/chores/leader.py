"""Leadership, a leased row on the database's clock, and the chores that run only while a worker holds it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic

from holdfast.errors import DatabaseClosed, DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.storage.workers import lead, step_down
from holdfast.telemetry.events import LeadershipChanged
from holdfast.worker.chores.chore import Chore, ChoreNeeds, Sign, WakeUp
from holdfast.worker.chores.chore_loop import ChoreLoop
from holdfast.worker.service import Alarm, through_cancellation
from holdfast.worker.wake_ups import ALWAYS_HEARD, WakeUps

_MANY_CLAIMED = 2_000

_log = logging.getLogger("holdfast.worker")


class Leader:
    """Tries to lead, leads for as long as it can renew, and stops its chores before its lease runs out."""

    def __init__(
        self,
        database: Database,
        chores: Sequence[Chore],
        needs: ChoreNeeds,
        *,
        worker: Callable[[], int | None],
        lease: timedelta = timedelta(seconds=10),
        wake_ups: WakeUps = ALWAYS_HEARD,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`database` has connections that never wait for a chore. `on_ready` is called when a chore has moved
        jobs to where they can be claimed, unless a notification tells this process anyway.
        """
        self._database = database
        self._schema = needs.schema
        self._emitter = needs.emitter
        self._chores = chores
        self._needs = needs
        self._loops: Sequence[ChoreLoop] = ()
        self._worker = worker
        self._lease = lease
        self._wake_ups = wake_ups
        self._on_ready = on_ready
        self._alarm = Alarm()
        self._claimed = 0
        self._failures = FailureLog(_log, "asking to lead")
        self.is_leader = False

    def wake(self, by: WakeUp) -> None:
        """This has happened: chores that declare that it wakes them look at once."""
        for loop in self._loops:
            loop.wake(by)

    def is_wanted(self) -> None:
        """The leader may have left: try to lead at once."""
        if not self.is_leader:
            self._alarm.ring()

    def claimed(self, jobs: int) -> None:
        """So many jobs were claimed by this process."""
        self._claimed += jobs
        if self._claimed >= _MANY_CLAIMED:
            self._claimed = 0
            self.wake(Sign.MANY_CLAIMED)

    async def run(self) -> None:
        try:
            while True:
                until = await self._try(self._lease.total_seconds())
                if until is not None:
                    await self._lead(until)
                else:
                    await self._wake_ups.sleep(self._alarm, self._lease.total_seconds() / 2)
        finally:
            await through_cancellation(self._step_down())

    async def _try(self, patience: float) -> float | None:
        """Until when this worker may believe that it leads, counted from before it asked. None: another one
        leads, or no answer came within so many seconds.
        """
        worker = self._worker()
        if worker is None:
            return None
        sent_at = monotonic()
        try:
            async with asyncio.timeout(patience):
                answers = await self._database.run(lead(self._schema, worker=worker, lease=self._lease))
        except TimeoutError:
            self._failures.failed(self._database.no_answer(patience))
            return None
        except DatabaseError as error:
            self._failures.failed(error)
            return None
        self._failures.worked()
        if not answers:
            return None
        if not self.is_leader:
            self.is_leader = True
            self._emitter.emit(LeadershipChanged(is_leader=True, term=answers[0].term))
        if answers[0].is_any_silent:
            self.wake(Sign.SILENT_WORKER)
        return sent_at + self._lease.total_seconds()

    async def _lead(self, until: float) -> None:
        self._loops = [self._loop(chore) for chore in self._chores]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(loop.run(self._wake_ups, self._on_did), name=f"chore-{loop.chore.name}")
                    for loop in self._loops
                ]
                try:
                    await self._renew(until)
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            self.is_leader = False
            self._emitter.emit(LeadershipChanged(is_leader=False, term=None))

    def _loop(self, chore: Chore) -> ChoreLoop:
        return ChoreLoop(chore, chore.make(self._needs).once, self._emitter, self._needs.lease)

    def _on_did(self, chore: Chore) -> None:
        self.wake(chore)
        if chore.fills_ready and not self._wake_ups.are_heard():
            self._on_ready()

    async def _renew(self, until: float) -> None:
        """Until the lease could not be renewed in time, or another worker has it."""
        lease = self._lease.total_seconds()
        while True:
            await self._alarm.sleep(max((until - monotonic()) * 0.7, 0.05))
            # A renewal that hangs must not keep the chores going past the lease.
            renewed = await self._try(max(until - lease / 10 - monotonic(), 0.05))
            if renewed is not None:
                until = renewed
            elif monotonic() >= until - lease / 5:
                return

    async def _step_down(self) -> None:
        worker = self._worker()
        if worker is not None:
            try:
                async with asyncio.timeout(2):
                    await self._database.run(step_down(self._schema, worker=worker))
            except (DatabaseError, DatabaseClosed, TimeoutError):
                pass  # the lease runs out by itself
