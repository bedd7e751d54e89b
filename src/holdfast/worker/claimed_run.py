"""A run that this process holds: what was claimed, until when it may go on, and why it was told to stop."""

import asyncio
import math
from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from time import monotonic

from holdfast.storage.runs import ClaimRow
from holdfast.telemetry.events import AttemptFact
from holdfast.worker.job_kind import Kind
from holdfast.worker.lease import UNBOUNDED, Lease

# Between a length that Postgres has told and one that is counted here, in seconds.
_ROUNDING = 0.001


class Stop(Enum):
    """Why an attempt is told to stop before its handler has ended."""

    TIMEOUT = "timeout"
    CANCEL = "cancel request"
    LOST = "lost lease"
    SHUTDOWN = "shutdown"


class ClaimedRun:
    """One run. Changed only on the event loop; the lease keeper's thread reads `run` and `job`."""

    __slots__ = (
        "_fact",
        "began",
        "called",
        "is_begun",
        "is_completing",
        "job",
        "kind",
        "lease",
        "on_stop",
        "overdue_at",
        "queue",
        "row",
        "run",
        "step",
        "stop",
        "task",
        "worker",
    )

    def __init__(self, worker: int, queue: str, row: ClaimRow, kind: Kind, lease: Lease = UNBOUNDED) -> None:
        assert row.job is not None, "a row that only tells of the ring"  # noqa: S101  # a mistake of this package
        self.worker = worker
        self.queue = queue
        self.row = row
        self.job = row.job
        self.run = row.run
        self.kind = kind
        self.lease = lease
        self.began = monotonic()
        self.overdue_at = self.began + row.lasting
        # When its handler was called; None while that waits for the start of a child process.
        self.called: float | None = self.began
        self.stop: Stop | None = None
        # Its handler commits its own completion, or has: a lease that is gone is then no sign of a loss.
        self.is_completing = False
        self.task: asyncio.Task[None] | None = None
        # Whether that task has taken its first step. One that is cancelled before would end without a word.
        self.is_begun = True
        self.on_stop: Callable[[Stop], None] | None = None
        # Of a state machine: the name of the step that this run is about.
        self.step: str | None = None
        self._fact: AttemptFact | None = None

    def await_call(self, patience: float) -> None:
        """The handler is called in a child that may have to start first: its time has not begun."""
        self.called = None
        self.overdue_at = min(self.began + patience + self.row.lasting, self._expires_at)

    def call_begins(self) -> None:
        """Its whole timeout is before it, unless its job's deadline is earlier."""
        self.called = monotonic()
        self.overdue_at = min(self.called + self.row.lasting, self._expires_at)

    @property
    def _expires_at(self) -> float:
        deadline, row = self.row.deadline_at, self.row
        if deadline is None:
            return math.inf
        return self.began + (deadline - row.started_at).total_seconds()

    @property
    def is_past_deadline(self) -> bool:
        """Whether what ended its time is the deadline of its job, and not its timeout."""
        return self.overdue_at >= self._expires_at - _ROUNDING

    @property
    def is_told_to_stop(self) -> bool:
        return self.stop is not None

    @property
    def took(self) -> timedelta:
        """How long ago this run began."""
        return timedelta(seconds=monotonic() - self.began)

    @property
    def fact(self) -> AttemptFact:
        """For telemetry. Made once: every attempt tells of its start and its end."""
        if self._fact is None:
            row = self.row
            self._fact = AttemptFact(
                self.job, self.run, row.kind, self.queue, row.attempt, row.max_attempts, self.step
            )
        return self._fact

    def go_by(self, row: ClaimRow, kind: Kind, step: str) -> None:
        """For a step that has a policy of its own: what follows is judged by it, and told of by its name."""
        self.row, self.kind, self.step = row, kind, step
        self._fact = None

    def check_lease(self, doing: str = "begin") -> None:
        """NotBegun if a handler or a step may not begin any more. Safe in any thread."""
        self.lease.check(self.job, self.run, doing)

    def tell_to_stop(self, reason: Stop) -> None:
        """A lost lease overrides whatever was said before: then nothing may be written any more. A commit
        under way is not interrupted for that: its fence knows better. A shutdown leaves the first reason, and
        ends the patience with what runs on in spite of it.
        """
        if self.stop is not None and reason is not Stop.LOST:
            if reason is Stop.SHUTDOWN and self.on_stop is None:
                self._cancel()
            return
        self.stop = reason
        if reason is Stop.LOST and self.is_completing:
            return
        if self.on_stop is not None:
            self.on_stop(reason)
        else:
            self._cancel()

    def _cancel(self) -> None:
        if self.task is not None and self.is_begun:
            self.task.cancel()
