"""Flows as operators see them: values made from the stored rows."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

from holdfast.domain.redaction import Redaction, scrubbed_value
from holdfast.domain.states import FinalState, JobState, RunOutcome, final_state
from holdfast.storage.flows_shown import FlowRow, StepRow
from holdfast.storage.job_lookup import Found, LedgerEntry

_STATE = "state"
_STEP_FAILED = re.compile(r'holdfast\.errors\.StepFailed: step "(.*?)" failed')

StepState = Literal["done", "unknown", JobState]
STEP_STATES: tuple[StepState, ...] = get_args(StepState)
"""`done`, or the state of the flow or of the child; `unknown` once the child was pruned."""


@dataclass(frozen=True, slots=True)
class FlowSummary:
    """One flow in a list. `step` is the current one, the one that it waits for, or its last; `until` is the
    latest time at which it continues.
    """

    id: int
    kind: str
    queue: str
    state: JobState
    step: str | None
    done: int
    waits_for: str | None
    until: datetime | None
    attempt: int
    max_attempts: int
    created_at: datetime
    finished_at: datetime | None
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class FlowStep:
    """Something that a flow has done, or begun. `kind` is step, sleep, event, call, transaction, now, uuid,
    version, or state for a machine's; `state` is done, failed, waiting, or that of the flow or the child.
    """

    name: str
    kind: str
    state: StepState
    failures: int
    value: Any
    error: dict[str, Any] | None
    at: datetime
    until: datetime | None
    event: str | None = None
    child: int | None = None
    child_kind: str | None = None


@dataclass(frozen=True, slots=True)
class FlowRun:
    """One run of a flow, from one wait to the next. A run of a machine is one `step`, and names the one that
    it moved to (`next`).
    """

    run: int
    attempt: int
    outcome: RunOutcome
    step: str | None
    next: str | None
    worker: int | None
    started_at: datetime | None
    finished_at: datetime
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class FlowRecord:
    """One flow in full."""

    id: int
    kind: str
    queue: str
    state: JobState
    is_machine: bool
    args: Any
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime | None
    deadline_at: datetime | None
    finished_at: datetime | None
    error: dict[str, Any] | None
    result: Any
    steps: list[FlowStep]
    history: list[FlowRun]

    @property
    def waits(self) -> list[FlowStep]:
        """What it waits for now."""
        return [step for step in self.steps if step.state == "waiting"]

    @property
    def failed_step(self) -> str | None:
        """The step whose error failed it; None if it has not failed, or not in a step. One that is tried only
        once leaves no checkpoint: its error names it.
        """
        if self.state != "failed":
            return None
        error = self.error or {}
        ended = [step for step in self.steps if step.state == "failed" and step.error]
        # A flow may catch the error of one step, and fail with another one later.
        found = [step.name for step in ended if _words(step.error) == _words(error)]
        told = (match[1] for cause in error.get("causes", ()) if (match := _STEP_FAILED.match(str(cause))))
        return found[-1] if found else next(told, None)

    @property
    def children(self) -> list[FlowStep]:
        return [step for step in self.steps if step.child is not None]


def summary_of(row: FlowRow) -> FlowSummary:
    return FlowSummary(
        id=row.job,
        kind=row.kind,
        queue=row.queue,
        state=row.state,
        step=row.step,
        done=row.done,
        waits_for=row.waits_for,
        until=row.until,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        created_at=row.created_at,
        finished_at=row.finished_at,
        error=_read(row.error),
    )


def is_machine_args(args: dict[str, Any]) -> bool:
    """Whether a job's arguments are those of a machine that has not left its first step."""
    return args.keys() == {"step", "fields"}


def record_of(found: Found, rows: Sequence[StepRow], ledger: Sequence[LedgerEntry]) -> FlowRecord:
    args: dict[str, Any] = json.loads(found.args)
    is_machine = any(row.kind == _STATE for row in rows) or (not rows and is_machine_args(args))
    steps = [_step(row, found) for row in rows]
    if is_machine and not steps:
        steps = [_first_step(args, found)]
    at = next((step.name for step in reversed(steps) if step.state != "done"), None)
    at = at or (steps[-1].name if steps else None)
    return FlowRecord(
        id=found.job,
        kind=found.kind,
        queue=found.queue,
        state=found.state,
        is_machine=is_machine,
        args=args,
        attempt=found.attempt,
        max_attempts=found.max_attempts,
        created_at=found.created_at,
        run_at=found.run_at,
        deadline_at=found.deadline_at,
        finished_at=found.finished_at,
        error=_read(found.error),
        result=_read(found.result),
        steps=steps,
        history=_history(ledger, at if is_machine else None),
    )


def masked(record: FlowRecord, redaction: Redaction) -> FlowRecord:
    """As people may see it. The values of a machine's steps are their fields. Those of other steps are what
    functions returned: what they quote of secret arguments is masked, and what is secret by its name.
    """
    secrets = redaction.secrets_in(record.args)
    fields = redaction.below("fields") if record.is_machine else redaction.anywhere()
    return replace(
        record,
        args=redaction.masked(record.args),
        result=scrubbed_value(redaction.below("return").masked(record.result), secrets),
        steps=[
            replace(step, value=scrubbed_value(fields.masked(step.value), secrets)) for step in record.steps
        ],
    )


def _step(row: StepRow, found: Found) -> FlowStep:
    return FlowStep(
        name=row.name,
        kind=row.kind,
        state=_state(row, found),
        failures=row.failures,
        value=_read(row.value),
        error=_read(row.error) or (_read(found.error) if _is_at(row) else None),
        at=row.written_at,
        until=row.until,
        event=row.key,
        child=row.child,
        child_kind=row.child_kind,
    )


def _is_at(row: StepRow) -> bool:
    return row.kind == _STATE and not row.is_done


def _state(row: StepRow, found: Found) -> StepState:
    if _is_at(row):
        return _state_of_current(found)
    if row.is_done:
        return "done" if row.error is None else _bad_end(_read(row.error))
    if row.child is not None:
        return row.child_state or "unknown"
    return "waiting" if found.finished_at is None else found.state


def _state_of_current(found: Found) -> StepState:
    """The state of the step that a machine is at: that of the machine itself."""
    return "done" if found.state == "succeeded" else found.state


def _bad_end(error: dict[str, Any]) -> FinalState:
    """How a step that did not succeed ended: a child may also have been cancelled, or have expired."""
    return final_state(error.get("state")) or "failed"


def _first_step(args: dict[str, Any], found: Found) -> FlowStep:
    return FlowStep(
        str(args["step"]),
        _STATE,
        _state_of_current(found),
        0,
        args["fields"],
        _read(found.error),
        found.created_at,
        found.run_at,
    )


def _history(ledger: Sequence[LedgerEntry], at: str | None) -> list[FlowRun]:
    """The runs of a machine, each with its step. Only a run that moved on names it: the runs between two such
    moves were tries of the step that the later one names.
    """
    runs: list[FlowRun] = []
    for entry in reversed(ledger):
        moved = {} if entry.is_final else _read(entry.result) or {}
        at = moved.get("step", at)
        runs.append(
            FlowRun(
                run=entry.run,
                attempt=entry.attempt,
                outcome=entry.outcome,
                step=at,
                next=moved.get("next"),
                worker=entry.worker,
                started_at=entry.started_at,
                finished_at=entry.finished_at,
                error=_read(entry.error),
            )
        )
    return runs[::-1]


def _words(error: dict[str, Any] | None) -> tuple[Any, Any]:
    return ((error or {}).get("type"), (error or {}).get("message"))


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)
