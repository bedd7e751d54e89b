"""Says what the leader did to jobs that no worker tells of: at once, in the log, one line for each."""

import logging
from collections import Counter
from collections.abc import Callable

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.chores import Expiry, TakenAway
from holdfast.storage.notices import overdue_notices
from holdfast.telemetry.events import Emitter, HooksUntold, JobExpired, JobsExpired, RunTakenAway
from holdfast.worker.chores.pace import Did

_log = logging.getLogger("holdfast.worker")

_EACH = 20


class EndReporter:
    """`on_end` is called after each: hooks may be told now."""

    def __init__(self, emitter: Emitter, on_end: Callable[[], None]) -> None:
        self._emitter = emitter
        self._on_end = on_end

    def taken_away(self, runs: list[TakenAway]) -> None:
        for lease, failure, settled in runs:
            if settled.outcome is None:
                _log.warning("dropped the lease of job=%s: the job has ended before, or is gone", lease.job)
            else:
                self._emitter.emit(
                    RunTakenAway(
                        job=lease.job,
                        run=lease.run,
                        kind=lease.kind or "",
                        queue=lease.queue or "",
                        attempt=lease.attempt,
                        max_attempts=lease.max_attempts,
                        worker=lease.worker,
                        host=lease.host,
                        pid=lease.pid,
                        outcome=settled.outcome,
                        failure=failure,
                    )
                )
        self._on_end()

    def expired(self, done: Expiry) -> None:
        """The first ones by name; thousands that expire together are counted by kind."""
        ended = list(zip(done.jobs, done.attempts, done.kinds, done.queues, strict=True))
        for job, attempt, kind, queue in ended[:_EACH]:
            self._emitter.emit(JobExpired(job, kind, queue, attempt))
        for kind, count in Counter(kind for _, _, kind, _ in ended[_EACH:]).items():
            self._emitter.emit(JobsExpired(kind, count))
        self._on_end()


class UntoldReporter:
    """Says which ends no worker has told hooks of in time."""

    def __init__(self, database: Database, schema: Schema, emitter: Emitter) -> None:
        self._database = database
        self._schema = schema
        self._emitter = emitter

    async def once(self) -> Did:
        for untold in await self._database.run(overdue_notices(self._schema)):
            self._emitter.emit(HooksUntold(untold.kind, untold.outcome, untold.number, untold.job))
        return Did()
