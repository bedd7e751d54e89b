"""A run that this worker has claimed: the one value that both halves of an attempt may touch.

The handler's half (`Context`, `Completion`, flows) writes what the handler did. The worker's half
(`Attempts`, `AttemptRunner`) writes until when the run may go on and why it was told to stop. Neither half
reaches into the other.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from time import monotonic
from typing import Any

from holdfast.domain.failure import Failure
from holdfast.domain.outcome import Succeeded
from holdfast.domain.states import RunOutcome
from holdfast.storage.runs import ClaimRow
from holdfast.telemetry.events import AttemptFact
from holdfast.worker.job_kind import Kind
from holdfast.worker.lease import UNBOUNDED, Lease
from holdfast.worker.run_lines import RunLines

# How far a length that Postgres measured may differ from one that was measured here, in seconds.
_ROUNDING = 0.001


class Stop(Enum):
    """Why an attempt has to stop before its handler has ended."""

    TIMEOUT = "timeout"
    CANCEL = "cancel request"
    LOST = "lost lease"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class CommittedEnd:
    """How a run ended by a commit of its own, such as that of `ctx.transaction()`: there is nothing left to
    settle. `outcome` is that of the ledger; `flag` why a success has no result; `waiting` what a flow waits
    for, in words; `failure` the error that it will retry; `next_step` the step that a machine moves to.
    """

    outcome: RunOutcome
    flag: str | None = None
    waiting: str | None = None
    failure: Failure | None = None
    next_step: str | None = None


class ClaimedRun:
    """One run. Changed only on the event loop, and by the thread of its own handler; the lease keeper's
    thread reads `run` and `job`.
    """

    __slots__ = (
        "_fact",
        "began",
        "called",
        "committed",
        "has_seen_stop",
        "inside",
        "is_begun",
        "is_completing",
        "is_in_transaction",
        "job",
        "kind",
        "lease",
        "lines",
        "met_outage",
        "no_transaction",
        "on_stop",
        "overdue_at",
        "queue",
        "result",
        "row",
        "run",
        "state",
        "step",
        "stop",
        "task",
        "uncertain_end",
        "worker",
    )

    def __init__(self, worker: int, queue: str, row: ClaimRow, kind: Kind, lease: Lease = UNBOUNDED) -> None:
        assert row.job is not None, "a row that only describes the ring"  # noqa: S101  # a mistake of this package
        self.worker = worker
        self.queue = queue
        self.row = row
        self.job = row.job
        self.run = row.run
        self.kind = kind
        self.lease = lease
        self.began = monotonic()
        self.overdue_at = self.began + row.lasting
        # When the handler was called; None while the call waits for a child process to start.
        self.called: float | None = self.began
        self.stop: Stop | None = None
        # The handler commits its own completion, or has done so: a missing lease then does not mean that the
        # run was taken away.
        self.is_completing = False
        self.task: asyncio.Task[None] | None = None
        # Whether that task has taken its first step. If it is cancelled before, it ends without reporting.
        self.is_begun = True
        self.on_stop: Callable[[Stop], None] | None = None
        # Middleware that runs in the handler's own thread, around it.
        self.inside: tuple[AbstractContextManager[Any], ...] = ()
        # For a state machine: the name of the step that this run executes.
        self.step: str | None = None
        self._fact: AttemptFact | None = None
        # Its log lines, if its kind keeps them and its handler has been called.
        self.lines: RunLines | None = None
        # Written by the handler's half.
        self.state: dict[str, Any] | None = None
        self.has_seen_stop = False
        self.is_in_transaction = False
        # Why this run may not use ctx.transaction(), in words for the caller.
        self.no_transaction: str | None = None
        # Named by ctx.complete_with().
        self.result: Succeeded | None = None
        self.committed: CommittedEnd | None = None
        # How the run has ended, if a commit whose reply was lost took effect.
        self.uncertain_end: CommittedEnd | None = None
        # The last transaction of this run could not be committed since its connection, or its server, failed.
        self.met_outage = False

    def await_call(self, patience: float) -> None:
        """The handler is called in a child process that may have to start first: its time has not begun."""
        self.called = None
        self.overdue_at = min(self.began + patience + self.row.lasting, self._expires_at)

    def call_begins(self) -> None:
        """From now on the handler has its whole timeout, unless the job's deadline comes earlier."""
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
        """Whether the job's deadline ended its time, and not its timeout."""
        return self.overdue_at >= self._expires_at - _ROUNDING

    @property
    def jobs(self) -> tuple[int, ...]:
        """The jobs that its handler is called for."""
        return (self.job,)

    @property
    def log_facts(self) -> Mapping[str, object]:
        """What a log record says of it."""
        return {"job": self.job, "run": self.run, "attempt": self.row.attempt}

    @property
    def is_left_out(self) -> bool:
        """Whether its handler has seen that it is cancelled, and so has not done its work."""
        return self.stop is Stop.CANCEL and self.has_seen_stop

    @property
    def is_running(self) -> bool:
        """Whether its attempt is under way: its task has not ended."""
        return self.task is not None and not self.task.done()

    @property
    def took(self) -> timedelta:
        """How long ago this run began."""
        return timedelta(0, monotonic() - self.began)  # in two thirds of the time of a keyword

    @property
    def waited(self) -> timedelta | None:
        """How long the job had been ready when it was claimed."""
        seconds = self.row.waited
        return None if seconds is None else timedelta(0, seconds)

    @property
    def fact(self) -> AttemptFact:
        """For telemetry. Made once: every attempt reports its start and its end."""
        if self._fact is None:
            row = self.row
            self._fact = AttemptFact(
                self.job, self.run, row.kind, self.queue, row.attempt, row.max_attempts, self.step
            )
        return self._fact

    def go_by(self, row: ClaimRow, kind: Kind, step: str) -> None:
        """For a step with a policy of its own: that policy decides what follows, and telemetry names the
        step.
        """
        self.row, self.kind, self.step = row, kind, step
        self._fact = None

    def check_lease(self, doing: str = "begin") -> None:
        """Raises NotBegun if the handler or a step may no longer begin. Safe in any thread."""
        self.lease.check(self.job, self.run, doing)

    def tell_to_stop(self, reason: Stop) -> None:
        """A lost lease overrides an earlier reason, since nothing may be written any more. It does not
        interrupt a commit under way: the fence in the database decides about that one. A shutdown keeps the
        earlier reason, and stops waiting for a handler that ignored it.
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
