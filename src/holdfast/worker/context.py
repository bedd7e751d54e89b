"""What a handler knows of its own run, and what it can do with it."""

import json
import logging
import math
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.codec.signature import Encoded
from holdfast.domain.failure import Failure, storable
from holdfast.domain.json_text import flaw, is_surely_longer
from holdfast.errors import InvalidInput
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.fired_plan import Plan, plan_of

if TYPE_CHECKING:
    from holdfast.worker.completion import Completion

current: ContextVar["Context"] = ContextVar("holdfast_context")

STATE_LIMIT = 1024 * 1024  # as for arguments, in bytes
PROGRESS_LIMIT = 16 * 1024  # as for results
_ELSEWHERE = " (store the bulk elsewhere, and a reference here)"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What was asked for."""

    id: int
    kind: str
    queue: str
    priority: int
    max_attempts: int
    created_at: datetime
    deadline_at: datetime | None
    tags: tuple[str, ...]


class Context:
    """Given to a handler whose first parameter is annotated with it."""

    # Of the class until they are set: most runs never do.
    _state: dict[str, Any] | None = None
    _is_completed = False
    _is_in_transaction = False
    _has_seen_stop = False
    _own_result: Encoded | None = None
    _own_outcome = "succeeded"
    """What the ledger says of a run that was settled by its own commit."""
    _own_wait: tuple[str | None, Failure | None] = (None, None)
    _own_next_step: str | None = None
    """For what it waits, in words, and what has failed and is tried again then."""

    def __init__(
        self,
        claimed: ClaimedRun,
        save_progress: Callable[[ClaimedRun, str], None],
        complete: Callable[["Context", Any], "Completion"],
    ) -> None:
        self._claimed = claimed
        self._save_progress = save_progress
        self._complete = complete

    @cached_property
    def job(self) -> JobFacts:
        """What was asked for. Made when it is looked at: most handlers never do."""
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
        """The plan that a schedule fired this job for; None for a job that was enqueued otherwise."""
        return plan_of(self._claimed.row.origin)

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records carry job, run and attempt."""
        claimed = self._claimed
        return logging.LoggerAdapter(
            logging.getLogger(f"holdfast.job.{claimed.row.kind}"),
            {"job": claimed.job, "run": claimed.run, "attempt": claimed.row.attempt},
        )

    @property
    def attempt(self) -> int:
        """Which try this is; the first is 1."""
        return self._claimed.row.attempt

    @property
    def fencing_token(self) -> int:
        """A number that grows with every run of any job: a system that remembers the greatest one that it has
        seen can refuse a run that was taken over.
        """
        return self._claimed.run

    @property
    def is_cancelled(self) -> bool:
        """Whether this run should stop: cancelled, timed out, lost or shutting down. For plain functions,
        which nobody can interrupt. One that has seen it ends as cancelled when it returns.
        """
        self._has_seen_stop = self._has_seen_stop or self._claimed.stop is not None
        return self._has_seen_stop

    @property
    def is_lost(self) -> bool:
        """Whether the lease is gone: nothing of this run can be written any more."""
        return self._claimed.stop is Stop.LOST

    @property
    def state(self) -> dict[str, Any]:
        """A dict that survives retries, snoozes and releases, up to 1 MiB as JSON. A crash leaves what the
        run began with.
        """
        if self._state is None:
            stored = json.loads(self._claimed.row.state) if self._claimed.row.state else {}
            self._state = stored if isinstance(stored, dict) else {}
        return self._state

    def progress(self, value: float | None = None, note: str | None = None, **facts: object) -> None:
        """Say how far this run has come, on a scale of your own from 0 up. Cheap: the newest word is written
        soon, behind the fence.
        """
        self._save_progress(self._claimed, _progress_text({"value": value, "note": note, **facts}))

    def transaction(self, connection: object = None) -> "Completion":
        """A transaction that completes this job with the writes in it: both, or neither.

        `async with ctx.transaction() as conn:` in a coroutine, `with …` in a plain function. Give your own
        SQLAlchemy session or connection to commit that one. Refused with LeaseLost if the run was taken away.
        """
        return self._complete(self, connection)

    def complete_with(self, value: object) -> None:
        """The job's result, if ctx.transaction() completes it: call this before its block ends. What the
        handler returns comes after that commit, and is not kept.
        """
        if self._is_completed:
            raise InvalidInput(
                "this job is completed already: call ctx.complete_with() before the block ends"
            )
        self._own_result = self._claimed.kind.signature.encode_result(value)

    def saved_state(self) -> str | None:
        """The state as JSON text, if the handler has touched it. ValueError or TypeError if it cannot be."""
        if self._state is None:
            return None
        if is_surely_longer(self._state, STATE_LIMIT):
            raise InvalidInput(f"it takes more than {STATE_LIMIT:,} bytes, the limit{_ELSEWHERE}")
        text = json.dumps(self._state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if problem := flaw(text):
            raise ValueError(problem)
        size = len(text.encode())
        if size > STATE_LIMIT:
            raise InvalidInput(f"it takes {size:,} bytes, the limit is {STATE_LIMIT:,}{_ELSEWHERE}")
        return text


def _progress_text(said: Mapping[str, object]) -> str:
    value = said["value"]
    if value is not None and not _is_measure(value):
        raise InvalidInput(f"progress is {value!r}: give a number from 0 up, such as a fraction or a count")
    given = {name: each for name, each in said.items() if each is not None}
    if is_surely_longer(given, PROGRESS_LIMIT):
        raise InvalidInput(f"progress takes more than {PROGRESS_LIMIT:,} bytes, the limit: say less")
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"progress cannot be written as JSON: {error}: give what JSON can hold") from error
    kept = storable(text).replace("\\u0000", "\\ufffd")
    size = len(kept.encode())
    if size > PROGRESS_LIMIT:
        raise InvalidInput(f"progress takes {size:,} bytes, the limit is {PROGRESS_LIMIT:,}: say less")
    return kept


def _is_measure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def facts_of(context: Context) -> Mapping[str, object]:
    """For log formatters: what is running in this task or thread."""
    return {"job": context.job.id, "run": context.fencing_token, "attempt": context.attempt}
