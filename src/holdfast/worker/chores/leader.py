"""Leadership as a leased row on the database's clock, and the chores that run only while we hold it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic

from holdfast.errors import DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.storage.workers import lead, step_down
from holdfast.telemetry.events import Emitter, LeadershipChanged
from holdfast.worker.chores.pace import Chore
from holdfast.worker.service import Alarm
from holdfast.worker.wake_ups import ALWAYS_HEARD, WakeUps

_WORTH_A_LOOK = 2_000

_log = logging.getLogger("holdfast.worker")


class Leader:
    """Tries to lead, leads for as long as it can renew, and stops its chores before its lease runs out."""

    def __init__(
        self,
        database: Database,
        schema: Schema,
        emitter: Emitter,
        chores: Callable[[], Sequence[Chore]],
        *,
        worker: Callable[[], int | None],
        lease: timedelta = timedelta(seconds=10),
        wake_ups: WakeUps = ALWAYS_HEARD,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_ready` is called when a chore has moved jobs to where they may be claimed, unless a
        notification tells this process anyway.
        """
        self._database = database
        self._schema = schema
        self._emitter = emitter
        self._make_chores = chores
        self._chores: Sequence[Chore] = ()
        self._worker = worker
        self._lease = lease
        self._wake_ups = wake_ups
        self._on_ready = on_ready
        self._alarm = Alarm()
        self._claimed = 0
        self._failures = FailureLog(_log, "asking to lead")
        self.is_leader = False

    def wake(self, *chores: str) -> None:
        """Something has happened that these chores wait for."""
        for chore in self._chores:
            if chore.name in chores:
                chore.alarm.ring()

    def is_wanted(self) -> None:
        """The leader may have left: try at once."""
        if not self.is_leader:
            self._alarm.ring()

    def claimed(self, jobs: int) -> None:
        """So many jobs went through here: what they leave behind in the ring is worth a look."""
        self._claimed += jobs
        if self._claimed >= _WORTH_A_LOOK:
            self._claimed = 0
            self.wake("ring")

    async def run(self) -> None:
        try:
            while True:
                until = await self._try(self._lease.total_seconds())
                if until is not None:
                    await self._lead(until)
                else:
                    await self._wake_ups.sleep(self._alarm, self._lease.total_seconds() / 2)
        finally:
            await asyncio.shield(self._step_down())

    async def _try(self, patience: float) -> float | None:
        """Until when we may believe to lead, counted from before we asked; None: not now, or no answer within
        so many seconds.
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
            self.wake("rescue")
        return sent_at + self._lease.total_seconds()

    async def _lead(self, until: float) -> None:
        # Made anew: what they remember of the last time may be wrong by now.
        self._chores = self._make_chores()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        chore.run(self._wake_ups, self._tell_ourselves), name=f"chore-{chore.name}"
                    )
                    for chore in self._chores
                ]
                try:
                    await self._renew(until)
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            self.is_leader = False
            self._emitter.emit(LeadershipChanged(is_leader=False, term=None))

    def _tell_ourselves(self) -> None:
        if not self._wake_ups.are_heard():
            self._on_ready()

    async def _renew(self, until: float) -> None:
        """Until the lease could not be renewed in time, or somebody else has it."""
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
            except (DatabaseError, TimeoutError):
                pass  # the lease runs out by itself
