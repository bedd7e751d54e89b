"""The `Context` of a handler: the facts of its run, and what it can do with it."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

from holdfast.domain.group import EndedGroup, group_of
from holdfast.domain.headers import headers_of
from holdfast.domain.limits import Limit, check_number
from holdfast.errors import InvalidInput
from holdfast.postgres.session_settings import Isolation
from holdfast.storage.limit_rules import Spending
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
        complete: Callable[[ClaimedRun, Any, Isolation | None], "Completion"],
        spend: Callable[[Spending], None] | None = None,
    ) -> None:
        self._claimed = claimed
        self._save_progress = save_progress
        self._complete = complete
        self._spend = spend

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
    def group(self) -> EndedGroup | None:
        """The group that this job follows, with how its members ended; None for a job that follows none."""
        return group_of(self._claimed.row.origin)

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """What a middleware has sent along with the job, such as a trace or a tenant."""
        return headers_of(self._claimed.row.origin)

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

    def spend(self, limit: Limit | str, units: int, *, key: str | None = None) -> None:
        """Count more against the rate of a limit than this job's start: what it has turned out to cost, such
        as tokens of a model. The rate may come to owe, and jobs wait until that is paid. Cheap: it is written
        soon after, and by a run that ends at once before it ends. Without a key: the one that this job has.
        """
        name = limit if isinstance(limit, str) else limit.name
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{limit!r} is no limit: give its name, or what app.limit(…) has returned")
        check_number("units", units)
        if self._spend is None:
            raise InvalidInput(
                'ctx.spend() is not for isolate="process": return what it cost, and count it in a coroutine'
            )
        self._spend(Spending(self._claimed.job, name, units, key))

    def transaction(self, connection: object = None, *, isolation: Isolation | None = None) -> "Completion":
        """A transaction that completes this job with the writes in it: both, or neither.

        `async with ctx.transaction() as conn:` in a coroutine, `with …` in a plain function. Pass your own
        SQLAlchemy session or connection to commit that one. `isolation` is the level of the transaction, such
        as "serializable". Raises LeaseLost if the run was taken away.
        """
        if self._claimed.no_transaction is not None:
            raise InvalidInput(self._claimed.no_transaction)
        if isolation is not None:
            check_isolation(isolation, connection)
        return self._complete(self._claimed, connection, isolation)

    def complete_with(self, value: object) -> None:
        """The job's result, if ctx.transaction() completes it: call this before its block ends. What the
        handler returns comes after that commit, and is not kept.
        """
        if self._claimed.committed is not None:
            raise InvalidInput(
                "this job is completed already: call ctx.complete_with() before the block ends"
            )
        self._claimed.result = self._claimed.kind.signature.encode_result(value)


def claimed_of(context: Context) -> ClaimedRun:
    """For the worker's own code that is given a context."""
    return context._claimed  # noqa: SLF001  # users see the context, and not this


def check_isolation(isolation: object, connection: object) -> None:
    levels = get_args(Isolation)
    if isolation not in levels:
        raise InvalidInput(f"isolation is one of {', '.join(map(repr, levels))}, not {isolation!r}")
    if connection is not None:
        raise InvalidInput(
            "isolation= is for a connection of the worker: set the level of your connection, or of its "
            "engine, before you pass it"
        )
