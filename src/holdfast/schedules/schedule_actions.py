"""What operators change of schedules. Each change leaves an entry in the audit, in the same transaction."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from holdfast.domain.job import is_whole
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.schedules.conversations import MOST_PLANS, get, not_found, preview, row_of, scopes_of, upcoming
from holdfast.schedules.planner import read_schedule
from holdfast.schedules.records import Schedule
from holdfast.storage import schedules, schedules_plans
from holdfast.storage.audit import check_signed, put_audit
from holdfast.storage.schedules import MOST_SCOPES, NewSchedule, NewScope
from holdfast.storage.schedules_plans import FiredPlan

Progress = Callable[[int, int], None]

_STATEMENT = 1_000


def put(
    schema: Schema, new: NewSchedule, scopes: Sequence[NewScope], *, by: str, reason: str | None
) -> Conversation[Schedule]:
    """One that is there already, just so, leaves no entry: programs store theirs at every start."""
    check_signed(by, reason)
    done = yield from schedules.put_whole(schema, new, scopes, is_declared=False)
    if done.is_changed:
        counts = {"new" if done.is_new else "changed": 1}
        yield from _remember(schema, "put", new.name, by=by, reason=reason, counts=counts)
    return (yield from get(schema, new.name))


def pause(
    schema: Schema, name: str, *, note: str | None, until: datetime | None, length: timedelta | None, by: str
) -> Conversation[None]:
    check_signed(by, note)
    pausing = schedules.pause(schema, name, note=note, until=until, length=length)
    row = yield from row_of(schema, name)
    if until is not None and until <= row.now:
        raise InvalidInput(f"until is {until}, which has passed: give a future time, or a length")
    done = yield from ask(pausing)
    if not done:
        raise (yield from not_found(schema, name))
    yield from _remember(schema, "pause", name, by=by, reason=note)


def resume(schema: Schema, name: str, *, by: str, reason: str | None) -> Conversation[bool]:
    check_signed(by, reason)
    done = yield from ask(schedules.resume(schema, name))
    if not done:
        raise (yield from not_found(schema, name))
    if done[0]:
        yield from _remember(schema, "resume", name, by=by, reason=reason)
    return done[0]


def delete(schema: Schema, name: str, *, by: str, reason: str | None) -> Conversation[None]:
    check_signed(by, reason)
    done = yield from ask(schedules.delete(schema, name))
    if not done:
        raise (yield from not_found(schema, name))
    yield from _remember(schema, "delete", name, by=by, reason=reason)


def run_now(
    schema: Schema, name: str, *, scope: str | None, by: str, reason: str | None
) -> Conversation[list[FiredPlan]]:
    check_signed(by, reason)
    yield from row_of(schema, name)
    scopes = yield from scopes_of(schema, name, scope)
    plans = [(one.scope, None) for one in scopes]
    fired = yield from _fire(schema, name, plans, "run_now", reason)
    counts = {"fired": len(fired)}
    yield from _remember(schema, "run", _part_of(name, scope), by=by, reason=reason, counts=counts)
    return fired


def skip_next(
    schema: Schema, name: str, *, count: int, scope: str | None, by: str, reason: str | None
) -> Conversation[list[tuple[str, datetime]]]:
    """Skip the next `count` plans of each scope, in place of those chosen before; 0 takes it back."""
    if not is_whole(count) or not 0 <= count <= MOST_PLANS:
        raise InvalidInput(
            f"count is {count!r}: give how many plans to skip, at most {MOST_PLANS:,}; 0 to undo it"
        )
    check_signed(by, reason)
    row = yield from row_of(schema, name)
    scopes = yield from scopes_of(schema, name, scope)
    if count * len(scopes) > MOST_SCOPES:
        raise InvalidInput(
            f"{count} plans of {len(scopes):,} scopes are too many to skip: pause the schedule instead"
        )
    now = row.now.astimezone(UTC)
    skips = [
        (one.scope, moment)
        for one in scopes
        for moment in upcoming(*read_schedule(row.timing, row.rules, one.zone), now, count)
    ]
    none = [(one.scope, None) for one in scopes if count == 0]
    yield from ask(schedules.skip(schema, name, skips or none))
    counts = {"skipped": len(skips)}
    yield from _remember(schema, "skip", _part_of(name, scope), by=by, reason=reason, counts=counts)
    return skips


def backfill(
    schema: Schema,
    name: str,
    *,
    first: datetime,
    last: datetime,
    scope: str | None,
    by: str,
    reason: str | None,
    on_progress: Progress | None = None,
) -> Conversation[list[FiredPlan]]:
    """Fire what a preview says is to fire. Hold it in a transaction: all of it or nothing. `on_progress` gets
    how many have fired, and of how many.
    """
    check_signed(by, reason)
    planned = yield from preview(schema, name, first=first, last=last, scope=scope)
    wanted = [(plan.scope, plan.time) for plan in planned if plan.fate == "fire"]
    fired = yield from _fire(schema, name, wanted, "backfilled", reason, on_progress=on_progress)
    target = f"{_part_of(name, scope)}, from {first.isoformat()} to {last.isoformat()}"
    counts = {"fired": len(fired)}
    yield from _remember(schema, "backfill", target, by=by, reason=reason, counts=counts)
    return fired


def _fire(
    schema: Schema,
    name: str,
    plans: Sequence[tuple[str, datetime | None]],
    decision: schedules_plans.OnRequest,
    reason: str | None,
    *,
    on_progress: Progress | None = None,
) -> Conversation[list[FiredPlan]]:
    """In parts, each with whole scopes in their order, so that two callers lock in the same order."""
    fired: list[FiredPlan] = []
    ordered = sorted(plans, key=lambda plan: plan[0])
    for part in _parts(ordered):
        fired += yield from ask(
            schedules_plans.fire_on_request(schema, name, part, decision=decision, reason=reason)
        )
        if on_progress is not None:
            on_progress(len(fired), len(plans))
    return sorted(fired, key=lambda plan: (plan.plan_time, plan.scope))


def _parts(
    plans: Sequence[tuple[str, datetime | None]],
) -> Iterator[list[tuple[str, datetime | None]]]:
    part: list[tuple[str, datetime | None]] = []
    for _, group in groupby(plans, key=lambda plan: plan[0]):
        part += group
        if len(part) >= _STATEMENT:
            yield part
            part = []
    if part:
        yield part


def _part_of(name: str, scope: str | None) -> str:
    return name if scope is None else f"{name}, scope {scope}"


def _remember(
    schema: Schema,
    verb: str,
    target: str,
    *,
    by: str,
    reason: str | None,
    counts: Mapping[str, int] | None = None,
) -> Conversation[None]:
    action = f"{verb} schedule"
    yield from ask(put_audit(schema, action=action, by=by, target=target, reason=reason, counts=counts or {}))
