"""The `Context` of a handler: the facts of its run, and what it can do with it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidInput
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.current_run import log_of
from holdfast.worker.fired_plan import Plan, plan_of
from holdfast.worker.state_and_progress import progress_text, read_state

if TYPE_CHECKING:
    from holdfast.worker.completion import Completion


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The job as it was enqueued."""

    id: int
    kind: str
    queue: str
    priority: int
    max_attempts: int
    created_at: datetime
    deadline_at: datetime | None
    tags: tuple[str, ...]


class Context:
    """Passed to a handler whose first parameter is annotated with it."""

    def __init__(
        self,
        claimed: ClaimedRun,
        save_progress: Callable[[ClaimedRun, str], None],
        complete: Callable[[ClaimedRun, Any], "Completion"],
    ) -> None:
        self._claimed = claimed
        self._save_progress = save_progress
        self._complete = complete

    @cached_property
    def job(self) -> JobFacts:
        """The job as it was enqueued. Made on first use: most handlers never look."""
        claimed, row = self._claimed, self._claimed.row
        return JobFacts(
            claimed.job,
            row.kind,
            claimed.queue,
            row.priority,
            row.max_attempts,
            row.created_at,
            row.deadline_at,
            tuple(row.tags or ()),
        )

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that a schedule fired this job for; None for a job that no schedule fired."""
        return plan_of(self._claimed.row.origin)

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records carry job, run and attempt."""
        return log_of(self._claimed)

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self._claimed.row.attempt

    @property
    def fencing_token(self) -> int:
        """A number that grows with every run of any job. A system that remembers the greatest one it has seen
        can refuse a run that was taken over.
        """
        return self._claimed.run

    @property
    def is_cancelled(self) -> bool:
        """Whether this run should stop: cancelled, timed out, lost or shutting down. For plain functions,
        which nothing can interrupt. One that has seen it ends as cancelled when it returns.
        """
        claimed = self._claimed
        claimed.has_seen_stop = claimed.has_seen_stop or claimed.stop is not None
        return claimed.has_seen_stop

    @property
    def is_lost(self) -> bool:
        """Whether this run has lost its lease: it can no longer write anything."""
        return self._claimed.stop is Stop.LOST

    @property
    def state(self) -> dict[str, Any]:
        """A dict that survives retries, snoozes and releases, up to 1 MiB as JSON. A crash leaves what the
        run began with.
        """
        claimed = self._claimed
        if claimed.state is None:
            claimed.state = read_state(claimed.row.state)
        return claimed.state

    def progress(self, value: float | None = None, note: str | None = None, **facts: object) -> None:
        """Report progress, on a scale that you choose from 0 up. Cheap: only the latest report is written,
        soon after, behind the fence.
        """
        self._save_progress(self._claimed, progress_text({"value": value, "note": note, **facts}))

    def transaction(self, connection: object = None) -> "Completion":
        """A transaction that completes this job with the writes in it: both, or neither.

        `async with ctx.transaction() as conn:` in a coroutine, `with …` in a plain function. Pass your own
        SQLAlchemy session or connection to commit that one. Raises LeaseLost if the run was taken away.
        """
        if self._claimed.no_transaction is not None:
            raise InvalidInput(self._claimed.no_transaction)
        return self._complete(self._claimed, connection)

    def complete_with(self, value: object) -> None:
        """The job's result, if ctx.transaction() completes it: call this before its block ends. What the
        handler returns comes after that commit, and is not kept.
        """
        if self._claimed.committed is not None:
            raise InvalidInput(
                "this job is completed already: call ctx.complete_with() before the block ends"
            )
        self._claimed.result = self._claimed.kind.signature.encode_result(value)
