"""Who a worker is in the database: registered at its start, again after its lease was lost, retired at its
end. One identity at a time.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from holdfast.domain.steering import Activity
from holdfast.domain.transition import ReleaseJob
from holdfast.errors import DatabaseError, HoldfastError
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.storage.runs import Heartbeat, Settlement, renew, settle_surely
from holdfast.storage.workers import register, retire
from holdfast.telemetry.events import Emitter, WorkerStarted, WorkerStopped, WorkerWasLost
from holdfast.worker.job_kind import Kinds, heard
from holdfast.worker.lease import Lease
from holdfast.worker.options import WorkerOptions
from holdfast.worker.stopping import Stopping

_log = logging.getLogger("holdfast.worker")

_AGAIN_SECONDS = 0.5


@dataclass(slots=True)
class Identity:
    """Read by every service of a worker. `id` is None before the start, while a lost identity is replaced,
    and once the worker retires.
    """

    id: int | None = None
    lease: Lease | None = None

    def held_lease(self) -> Lease | None:
        """What claims may be made under."""
        return None if self.id is None else self.lease


class Registrar:
    """Gives the worker its identity and takes it away.

    `doing` is what the worker tells of itself: what it does, and its slots for each queue. `on_registered`
    gets the new id and when it was asked for, and answers the lease that is kept from then on. `on_lost`
    stops what ran under a lost id, and answers how many runs that were.
    """

    def __init__(
        self,
        identity: Identity,
        database: Database,
        schema: Schema,
        emitter: Emitter,
        *,
        kinds: Kinds,
        options: WorkerOptions,
        version: str,
        stopping: Stopping,
        doing: Callable[[], tuple[Activity, Sequence[int]]],
        on_registered: Callable[[int, float], Lease],
        on_lost: Callable[[int], int],
    ) -> None:
        self._identity = identity
        self._database = database
        self._schema = schema
        self._emitter = emitter
        self._kinds = kinds
        self._options = options
        self._version = version
        self._stopping = stopping
        self._doing = doing
        self._previous: int | None = None
        self._on_registered = on_registered
        self._on_lost = on_lost
        self._registering_again: asyncio.Task[None] | None = None

    async def register(self) -> None:
        queues = self._options.queues
        activity, queue_slots = self._doing()
        sent_at = monotonic()
        worker = await self._database.run_one(
            register(
                self._schema,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=self._version,
                queues=tuple(queues),
                kinds=tuple(self._kinds),
                hears=heard(self._kinds),
                slots=sum(queue_slots),
                queue_slots=queue_slots,
                activity=activity,
                previous=self._previous,
                lease=self._options.beats.lease,
            )
        )
        self._identity.lease = self._on_registered(worker, sent_at)
        self._identity.id = self._previous = worker
        self._emitter.emit(WorkerStarted(worker, tuple(queues), len(self._kinds), sum(queue_slots)))

    def lost(self, worker: int) -> None:
        """The lease is gone: abort what ran under it, and register again under another id."""
        if worker != self._identity.id:
            return
        self._identity.id = None
        self._emitter.emit(WorkerWasLost(worker, self._on_lost(worker)))
        if not self._stopping.draining.is_set():
            self._registering_again = asyncio.get_running_loop().create_task(self._register_again())

    async def _register_again(self) -> None:
        failures = FailureLog(_log, "registering this worker again")
        while self._identity.id is None and not self._stopping.draining.is_set():
            try:
                await self.register()
                failures.worked()
                break
            except HoldfastError as error:
                failures.failed(error)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def retire(self, released: int, *, patience: timedelta) -> bool:
        """Leave nothing behind: a claim whose reply was lost is released too. `released` is how many runs
        were given back before. Returns whether the database has taken it.
        """
        if self._registering_again is not None:
            self._registering_again.cancel()
            await asyncio.wait([self._registering_again])
        # A heartbeat that finds the row deleted must not take this worker for lost.
        worker, self._identity.id = self._identity.id, None
        if worker is None:
            return False
        is_retired = False
        with suppress(DatabaseError, TimeoutError):
            async with asyncio.timeout(patience.total_seconds()):
                left = await self._database.run_one(
                    renew(self._schema, worker=worker, lease=self._options.beats.lease, runs=())
                )
                if left.unknown_runs:
                    releases = settle_surely(
                        self._schema,
                        _releases(worker, left),
                        retention=self._options.retention,
                        is_noticed=True,
                    )
                    await hold(releases, self._database.run)
                async with self._database.transaction() as transaction:
                    await hold(retire(self._schema, worker=worker), transaction.run)
                is_retired = True
        self._emitter.emit(WorkerStopped(worker, released))
        return is_retired


def _releases(worker: int, left: Heartbeat) -> Sequence[Settlement]:
    pairs = zip(left.unknown_jobs, left.unknown_runs, strict=True)
    return [Settlement(worker, job, run, ReleaseJob()) for job, run in pairs]
