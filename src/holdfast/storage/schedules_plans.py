"""Plans: what is due, what was decided and fired, what a range holds; backfilled on request, pruned."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Literal, NamedTuple

from holdfast.domain.failure import storable
from holdfast.domain.job import check_limit, check_name
from holdfast.domain.plan_decisions import Decided, PlanDecisions
from holdfast.domain.schedule_rules import check_scope
from holdfast.domain.states import JobState
from holdfast.errors import InvalidInput
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.arrays import number_array, text_array
from holdfast.storage.operators import NOTE_LIMIT
from holdfast.storage.statements import statement

OnRequest = Literal["backfilled", "run_now"]

PRUNED = 1_000


class DueRow(NamedTuple):
    """Scopes that are due and stand alike. No schedule: only the clock. No version: it is gone."""

    now: datetime
    schedule: str | None
    scopes: list[str]
    version: int | None
    timing: str
    rules: str
    zone: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    since_at: datetime
    last_plan_at: datetime | None
    skips: list[datetime | None] | None
    error: str | None
    active_since: datetime | None


class Fired(NamedTuple):
    """How many scopes a fire found as they were read, and how many jobs it made."""

    taken: int
    fired: int


class FiredPlan(NamedTuple):
    scope: str
    plan_time: datetime
    job: int


class KnownPlan(NamedTuple):
    scope: str
    plan_time: datetime
    decision: str
    has_job: bool


class PlanRow(NamedTuple):
    """A plan with what became of its job, as the view `plans` shows it."""

    schedule: str
    scope: str
    plan_time: datetime
    decision: str
    reason: str | None
    plans: int
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
    rows_affected: Decimal | None
    result: str | None
    flag: str | None


class DecidedScopes(NamedTuple):
    """What a look decided about some scopes that were read. `is_exclusive`: their jobs must not overlap, so
    the last one has to be known.
    """

    row: DueRow
    scopes: list[str]
    look: PlanDecisions
    is_exclusive: bool = False


_DUE = statement("plan_due", DueRow, is_repeatable=True)
_FIRE = statement("plan_fire", Fired)
_FIRE_ALIKE = statement("plan_fire_alike", Fired)
_NEXT = statement("plan_next", lambda length: length, is_repeatable=True)
_REFUSE = statement("plan_refuse", int)
_PRUNE = statement("plan_prune", int)
_BACKFILL = statement("plan_backfill", FiredPlan)
_LIST = statement("plan_list", PlanRow, is_repeatable=True)
_KNOWN = statement("plan_known", KnownPlan, is_repeatable=True)


def due(
    schema: Schema, *, limit: int = 1_000, schedule: str | None = None, now: datetime | None = None
) -> Statement[DueRow]:
    """The clock, and scopes that are due for a decision."""
    return _DUE.with_params(schema, limit=limit, schedule=schedule, now=now)


def fire(schema: Schema, moves: Sequence[DecidedScopes], *, now: datetime | None = None) -> Statement[Fired]:
    """Write decisions down and fire, where nothing has changed since it was read."""
    each = [(move, scope) for move in moves for scope in move.scopes]
    plans = [decided for move, _ in each for decided in move.look.decided]
    lasts = list(accumulate(len(move.look.decided) for move, _ in each))
    kinds = list(dict.fromkeys((decided.decision, decided.reason) for decided in plans))
    numbers = {kind: number for number, kind in enumerate(kinds, 1)}
    is_counted = any(decided.count > 1 for decided in plans)
    return _FIRE.with_params(
        schema,
        schedules=text_array([move.row.schedule for move, _ in each]),
        scopes=text_array([scope for _, scope in each]),
        versions=number_array([move.row.version or 0 for move, _ in each]),
        were_last=[move.row.last_plan_at for move, _ in each],
        last_plans=[move.look.last_plan_at for move, _ in each],
        nexts=[move.look.next_at for move, _ in each],
        keep_jobs=[move.is_exclusive for move, _ in each],
        firsts=number_array([1, *[last + 1 for last in lasts[:-1]]]),
        lasts=number_array(lasts),
        jobs=number_array(
            [sum(decided.run_at is not None for decided in move.look.decided) for move, _ in each]
        ),
        plan_times=[decided.plan_time for decided in plans],
        earliests=[decided.earliest for decided in plans] if is_counted else None,
        run_ats=[decided.run_at for decided in plans],
        places=[place for move, _ in each for place in _places(move.look.decided)],
        counts=number_array([decided.count for decided in plans]) if is_counted else None,
        decided=number_array([numbers[decided.decision, decided.reason] for decided in plans]),
        decisions=[decision for decision, _ in kinds],
        reasons=[reason for _, reason in kinds],
        now=now,
    )


def fire_alike(schema: Schema, move: DecidedScopes, *, now: datetime | None = None) -> Statement[Fired]:
    """The same for many scopes that stand alike, whose jobs may overlap and which have nothing to skip."""
    row, plans = move.row, move.look.decided
    return _FIRE_ALIKE.with_params(
        schema,
        schedule=row.schedule,
        version=row.version,
        scopes=text_array(move.scopes),
        was_last=row.last_plan_at,
        since=row.since_at,
        zone=row.zone,
        last_plan=move.look.last_plan_at,
        next=move.look.next_at,
        plan_times=[decided.plan_time for decided in plans],
        earliests=[decided.earliest for decided in plans],
        run_ats=[decided.run_at for decided in plans],
        counts=[decided.count for decided in plans],
        decisions=[decided.decision for decided in plans],
        reasons=[decided.reason for decided in plans],
        now=now,
    )


def next_look(schema: Schema, *, now: datetime | None = None) -> Statement[timedelta | None]:
    """How long the planner may sleep; None: nothing is to come."""
    return _NEXT.with_params(schema, now=now)


def refuse(
    schema: Schema,
    refused: Sequence[tuple[str, str, str]],
    *,
    wait: timedelta,
    now: datetime | None = None,
) -> Statement[int]:
    """Put scopes off that cannot be planned: schedule, scope and what is wrong."""
    return _REFUSE.with_params(
        schema,
        schedules=[schedule for schedule, _, _ in refused],
        scopes=[scope for _, scope, _ in refused],
        errors=[error for _, _, error in refused],
        wait=wait,
        now=now,
    )


def prune(schema: Schema, *, limit: int = PRUNED, now: datetime | None = None) -> Statement[int]:
    """Delete plans that were kept long enough. Repeat until the answer is short."""
    return _PRUNE.with_params(schema, limit=limit, now=now)


def fire_on_request(
    schema: Schema,
    schedule: str,
    plans: Sequence[tuple[str, datetime | None]],
    *,
    decision: OnRequest,
    reason: str | None = None,
    now: datetime | None = None,
) -> Statement[FiredPlan]:
    """Fire (scope, plan time) pairs that have no job yet, or with no time one right now."""
    return _BACKFILL.with_params(
        schema,
        schedule=schedule,
        scopes=text_array([scope for scope, _ in plans]),
        plan_times=[moment for _, moment in plans],
        decision=decision,
        reason=reason and storable(reason)[:NOTE_LIMIT],
        is_now=decision == "run_now",
        now=now,
    )


def plans_of(
    schema: Schema,
    schedule: str,
    *,
    scope: str | None = None,
    before: datetime | None = None,
    is_unfired: bool = False,
    limit: int = 100,
) -> Statement[PlanRow]:
    """Plans with what became of them, the latest first; `is_unfired`: those that made no job."""
    check_name("schedule", schedule)
    check_scope(scope)
    check_limit(limit)
    if not isinstance(is_unfired, bool):
        raise InvalidInput(f"is_unfired is {is_unfired!r}: give True or False")
    return _LIST.with_params(
        schema, schedule=schedule, scope=scope, before=before, is_unfired=is_unfired, limit=limit
    )


def known_plans(
    schema: Schema, schedule: str, *, first: datetime, last: datetime, scope: str | None = None
) -> Statement[KnownPlan]:
    """What is known of the plans in a range."""
    return _KNOWN.with_params(schema, schedule=schedule, first=first, last=last, scope=scope)


def _places(plans: Sequence[Decided]) -> Iterator[int | None]:
    """Which of its scope's jobs each plan has."""
    place = 0
    for plan in plans:
        if plan.run_at is not None:
            place += 1
        yield place if plan.run_at is not None else None
