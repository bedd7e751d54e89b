"""Reports what the leader did to jobs that no worker reports: runs taken away, and expired jobs."""

import logging
from collections import Counter
from collections.abc import Callable

from holdfast.storage.chores import Expiry, TakenAway
from holdfast.telemetry.events import Emitter, JobExpired, JobsExpired, RunTakenAway

_log = logging.getLogger("holdfast.worker")

_EACH = 20


class EndReporter:
    """`on_end` is called after each report: hooks may be called now."""

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
        """The first ones by name; thousands that expire together are counted by kind and queue."""
        ended = list(zip(done.jobs, done.attempts, done.kinds, done.queues, strict=True))
        for job, attempt, kind, queue in ended[:_EACH]:
            self._emitter.emit(JobExpired(job, kind, queue, attempt))
        for (kind, queue), count in Counter((kind, queue) for _, _, kind, queue in ended[_EACH:]).items():
            self._emitter.emit(JobsExpired(kind, queue, count))
        self._on_end()
