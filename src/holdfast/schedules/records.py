"""What is known of a schedule and of its plans, as values for programs."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from holdfast.domain.schedule_rules import Rules
from holdfast.domain.states import JobState
from holdfast.domain.timing import Timing
from holdfast.errors import InvalidInput
from holdfast.schedules.planner import read_schedule
from holdfast.storage.schedules import ScheduleRow
from holdfast.storage.schedules_plans import PlanRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule and its state. `timing` and `rules` are None if its row cannot be read: see `error`.

    `is_orphaned`: it was declared in code, and no live worker declares it any more. It keeps firing until it
    is paused or deleted. `is_kind_known`: a live worker knows its job, or no worker is alive; else its job
    was renamed or removed, and the jobs that it fires wait. `scopes` counts those that fire, `failing` those
    that cannot be planned.
    """

    name: str
    timing: Timing | None
    rules: Rules | None
    described: str
    kind: str
    queue: str
    args: Any
    history: timedelta
    created_at: datetime
    changed_at: datetime
    is_declared: bool
    is_orphaned: bool
    is_kind_known: bool
    is_paused: bool
    paused_at: datetime | None
    paused_until: datetime | None
    pause_note: str | None
    has_scopes: bool
    scopes: int
    failing: int
    last_plan_at: datetime | None
    next_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan: the decision about it, and the state of its job."""

    schedule: str
    scope: str
    time: datetime
    decision: str
    reason: str | None
    count: int
    earliest: datetime | None
    decided_at: datetime
    run_at: datetime | None
    job: int | None
    state: JobState | None
    attempts: int | None
    max_attempts: int | None
    next_retry_at: datetime | None
    error_code: str | None
    duration: timedelta | None
    rows_affected: int | None
    result: Any

    @property
    def lag(self) -> timedelta:
        """How long after its time it was decided."""
        return self.decided_at - self.time

    def is_retry_due(self, now: datetime) -> bool:
        """Whether its job has failed an attempt, and its retry is due."""
        if self.state not in ("scheduled", "ready") or not self.attempts:
            return False
        return self.attempts < (self.max_attempts or 0) and (
            self.next_retry_at is None or self.next_retry_at <= now
        )


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """One plan of a range: it will `fire`, has `fired` before, or was `pruned`, so its fate is unknown."""

    scope: str
    time: datetime
    fate: Literal["fire", "fired", "pruned"]


def schedule_of(row: ScheduleRow) -> Schedule:
    timing, rules, error = None, None, row.error
    try:
        timing, rules = read_schedule(row.timing, row.rules)
    except InvalidInput as problem:
        error = error or str(problem)
    return Schedule(
        name=row.name,
        timing=timing,
        rules=rules,
        described=timing.described if timing else row.timing,
        kind=row.kind,
        queue=row.queue,
        args=json.loads(row.args),
        history=row.history,
        created_at=row.created_at.astimezone(UTC),
        changed_at=row.changed_at.astimezone(UTC),
        is_declared=row.declared_at is not None,
        is_orphaned=row.is_orphaned,
        is_kind_known=row.is_kind_known,
        is_paused=row.is_paused,
        paused_at=_utc(row.paused_at) if row.is_paused else None,
        paused_until=_utc(row.paused_until) if row.is_paused else None,
        pause_note=row.pause_note,
        has_scopes=row.has_scopes,
        scopes=row.scopes,
        failing=row.failing,
        last_plan_at=_utc(row.last_plan_at),
        next_at=_utc(row.next_at),
        error=error,
    )


def record_of(row: PlanRow) -> PlanRecord:
    return PlanRecord(
        schedule=row.schedule,
        scope=row.scope,
        time=row.plan_time.astimezone(UTC),
        decision=row.decision,
        reason=row.reason,
        count=row.plans,
        earliest=_utc(row.earliest),
        decided_at=row.decided_at.astimezone(UTC),
        run_at=_utc(row.run_at),
        job=row.job,
        state=row.state,
        attempts=row.attempts,
        max_attempts=row.max_attempts,
        next_retry_at=_utc(row.next_retry_at),
        error_code=row.error_code,
        duration=row.duration,
        rows_affected=None if row.rows_affected is None else int(row.rows_affected),
        result=None if row.result is None else json.loads(row.result),
    )


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
