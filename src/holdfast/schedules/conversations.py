"""What programs and operators ask of schedules: conversations, held on our connection or the caller's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby

from holdfast.domain.job import check_name, check_text, check_time, is_whole
from holdfast.domain.redaction import EVERYTHING, Redaction
from holdfast.domain.schedule_rules import Rules
from holdfast.domain.timing import Timing
from holdfast.errors import InvalidInput, ScheduleNotFound
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.schedules import records
from holdfast.schedules.planner import read_schedule
from holdfast.schedules.records import BackfillPlan, PlanRecord, Schedule
from holdfast.storage import schedules, schedules_plans
from holdfast.storage.kinds import redactions
from holdfast.storage.schedules import MOST_SCOPES, NewSchedule, NewScope, ScheduleRow, ScopeRow
from holdfast.storage.schedules_plans import FiredPlan

MOST_PLANS = 10_000
_PAGE = 5_000
_TICK = datetime.resolution


def put(schema: Schema, new: NewSchedule, scopes: Sequence[NewScope]) -> Conversation[Schedule]:
    yield from schedules.put_whole(schema, new, scopes, is_declared=False)
    return (yield from get(schema, new.name))


def get(schema: Schema, name: str) -> Conversation[Schedule]:
    row = yield from _row(schema, name)
    return records.schedule_of(row)


def list_all(schema: Schema) -> Conversation[list[Schedule]]:
    rows = yield from ask(schedules.find(schema))
    return [records.schedule_of(row) for row in rows]


def masked(
    schema: Schema, found: Sequence[Schedule], declared: Mapping[str, Redaction]
) -> Conversation[list[Schedule]]:
    """As people may see them: without the secrets among their arguments."""
    known = yield from redactions(schema, {each.kind for each in found}, declared)
    return [replace(each, args=known[each.kind].masked(each.args)) for each in found]


def _masked_plans(
    schema: Schema, name: str, found: Sequence[PlanRecord], declared: Mapping[str, Redaction]
) -> Conversation[list[PlanRecord]]:
    """The same for results. Of a schedule that was deleted it is not known what is secret in them."""
    if all(each.result is None for each in found):
        return list(found)
    kinds = [row.kind for row in (yield from ask(schedules.find(schema, name)))]
    known = yield from redactions(schema, kinds, declared)
    redaction = known[kinds[0]].below("return") if kinds else EVERYTHING
    return [replace(each, result=redaction.masked(each.result)) for each in found]


def pause(
    schema: Schema, name: str, *, note: str | None, until: datetime | None, length: timedelta | None
) -> Conversation[None]:
    pausing = schedules.pause(schema, name, note=note, until=until, length=length)
    row = yield from _row(schema, name)
    if until is not None and until <= row.now:
        raise InvalidInput(f"until is {until}, which has passed: give a future time, or a length")
    done = yield from ask(pausing)
    if not done:
        raise ScheduleNotFound(name)


def resume(schema: Schema, name: str) -> Conversation[bool]:
    done = yield from ask(schedules.resume(schema, name))
    if not done:
        raise ScheduleNotFound(name)
    return done[0]


def delete(schema: Schema, name: str) -> Conversation[None]:
    done = yield from ask(schedules.delete(schema, name))
    if not done:
        raise ScheduleNotFound(name)


def run_now(
    schema: Schema, name: str, *, scope: str | None, reason: str | None
) -> Conversation[list[FiredPlan]]:
    yield from _row(schema, name)
    scopes = yield from _scopes(schema, name, scope)
    plans = [(one.scope, None) for one in scopes]
    return (yield from _fire(schema, name, plans, "run_now", reason))


def skip_next(
    schema: Schema, name: str, *, count: int, scope: str | None
) -> Conversation[list[tuple[str, datetime]]]:
    """Skip the next `count` plans of each scope, in place of those chosen before; 0 takes it back."""
    if not is_whole(count) or not 0 <= count <= MOST_PLANS:
        raise InvalidInput(
            f"count is {count!r}: give how many plans to skip, at most {MOST_PLANS:,}; 0 to undo it"
        )
    row = yield from _row(schema, name)
    scopes = yield from _scopes(schema, name, scope)
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
    return skips


def next_times(schema: Schema, name: str, *, count: int, scope: str | None) -> Conversation[list[datetime]]:
    """The next plan times, of the schedule or of one scope in its own zone; those to be skipped are not."""
    if not is_whole(count) or not 1 <= count <= MOST_PLANS:
        raise InvalidInput(f"count is {count!r}: give 1 to {MOST_PLANS:,}")
    row = yield from _row(schema, name)
    zone, skips = None, frozenset[datetime]()
    if scope is not None or not row.has_scopes:
        [one] = yield from _scopes(schema, name, scope or "")
        zone = one.zone
        skips = frozenset(moment.astimezone(UTC) for moment in one.skips or ())
    timing, rules = read_schedule(row.timing, row.rules, zone)
    times = upcoming(timing, rules, row.now.astimezone(UTC), count + len(skips))
    return [moment for moment in times if moment not in skips][:count]


def plans(
    schema: Schema,
    name: str,
    declared: Mapping[str, Redaction],
    *,
    scope: str | None,
    before: datetime | None,
    is_unfired: bool,
    limit: int,
) -> Conversation[list[PlanRecord]]:
    check_time("time", before)
    rows = yield from ask(
        schedules_plans.plans_of(schema, name, scope=scope, before=before, is_unfired=is_unfired, limit=limit)
    )
    # One that was deleted has left its plans, to be paged through to their end.
    if not rows and not (yield from ask(schedules_plans.plans_of(schema, name, limit=1))):
        yield from _row(schema, name)
    found = [records.record_of(row) for row in rows]
    return (yield from _masked_plans(schema, name, found, declared))


def preview(
    schema: Schema, name: str, *, first: datetime, last: datetime, scope: str | None
) -> Conversation[list[BackfillPlan]]:
    """The plans of a range, oldest first, with what a backfill would do to each."""
    row = yield from _row(schema, name)
    first, last = _range(row, first, last)
    scopes = yield from _scopes(schema, name, scope)
    wanted = list(_plans_between(row, scopes, first, last))
    known = yield from ask(schedules_plans.known_plans(schema, name, first=first, last=last, scope=scope))
    fired = {(plan.scope, plan.plan_time.astimezone(UTC)) for plan in known if plan.has_job}
    pruned = {one.scope: one.pruned_until for one in scopes if one.pruned_until is not None}
    plans = []
    for name_, moment in sorted(wanted, key=lambda plan: (plan[1], plan[0])):
        if (name_, moment) in fired:
            plans.append(BackfillPlan(name_, moment, "fired"))
        elif name_ in pruned and moment <= pruned[name_]:
            plans.append(BackfillPlan(name_, moment, "pruned"))
        else:
            plans.append(BackfillPlan(name_, moment, "fire"))
    return plans


def backfill(
    schema: Schema, name: str, *, first: datetime, last: datetime, scope: str | None, reason: str | None
) -> Conversation[list[FiredPlan]]:
    """Fire what a preview says is to fire. Hold it in a transaction: all of it or nothing."""
    planned = yield from preview(schema, name, first=first, last=last, scope=scope)
    wanted = [(plan.scope, plan.time) for plan in planned if plan.fate == "fire"]
    return (yield from _fire(schema, name, wanted, "backfilled", reason))


def upcoming(timing: Timing, rules: Rules, after: datetime, count: int) -> Iterator[datetime]:
    """Up to `count` plan times later than a moment, within the rules' bounds."""
    if rules.starts_at is not None:
        after = max(after, rules.starts_at - _TICK)
    for _ in range(count):
        found = timing.first_after(after)
        if found is None or (rules.ends_at is not None and found >= rules.ends_at):
            return
        yield found
        after = found


def _row(schema: Schema, name: str) -> Conversation[ScheduleRow]:
    check_name("schedule", name)
    rows = yield from ask(schedules.find(schema, name))
    if not rows:
        raise ScheduleNotFound(name)
    return rows[0]


def _scopes(schema: Schema, name: str, scope: str | None) -> Conversation[list[ScopeRow]]:
    """All scopes of a schedule, read in pages; or only `scope`, which must exist."""
    found: list[ScopeRow] = []
    page = yield from ask(schedules.scopes_of(schema, name, scope=scope, limit=_PAGE))
    while page:
        found += page
        is_full = len(page) == _PAGE
        page = (
            (yield from ask(schedules.scopes_of(schema, name, after=page[-1].scope, limit=_PAGE)))
            if is_full
            else []
        )
    if scope is not None and not found:
        raise ScheduleNotFound(name, scope=scope)
    return found


def _fire(
    schema: Schema,
    name: str,
    plans: Sequence[tuple[str, datetime | None]],
    decision: schedules_plans.OnRequest,
    reason: str | None,
) -> Conversation[list[FiredPlan]]:
    """In parts, each with whole scopes in their order, so that two callers lock in the same order."""
    if reason is not None:
        check_text("reason", reason)
    fired: list[FiredPlan] = []
    ordered = sorted(plans, key=lambda plan: plan[0])
    for part in _parts(ordered):
        fired += yield from ask(
            schedules_plans.fire_on_request(schema, name, part, decision=decision, reason=reason)
        )
    return sorted(fired, key=lambda plan: (plan.plan_time, plan.scope))


def _parts(
    plans: Sequence[tuple[str, datetime | None]],
) -> Iterator[list[tuple[str, datetime | None]]]:
    part: list[tuple[str, datetime | None]] = []
    for _, group in groupby(plans, key=lambda plan: plan[0]):
        part += group
        if len(part) >= 1_000:  # noqa: PLR2004  # a statement of a handy size
            yield part
            part = []
    if part:
        yield part


def _range(row: ScheduleRow, first: datetime, last: datetime) -> tuple[datetime, datetime]:
    for name, moment in (("first", first), ("last", last)):
        if not isinstance(moment, datetime):
            raise InvalidInput(f"{name} is {moment!r}: give an aware datetime")
        check_time(name, moment)
    if first > last:
        raise InvalidInput(f"the range from {first} to {last} is empty: give the earlier time first")
    if last > row.now:
        raise InvalidInput(
            f"the range ends at {last}, which is not in the past: future plans fire by themselves"
        )
    return first.astimezone(UTC), last.astimezone(UTC)


def _plans_between(
    row: ScheduleRow, scopes: Sequence[ScopeRow], first: datetime, last: datetime
) -> Iterator[tuple[str, datetime]]:
    left = MOST_PLANS
    for one in scopes:
        timing, rules = read_schedule(row.timing, row.rules, one.zone)
        after = max(first, rules.starts_at or first) - _TICK
        until = last if rules.ends_at is None else min(last, rules.ends_at - _TICK)
        times = timing.between(after, until, left + 1) if until > after else []
        left -= len(times)
        if left < 0:
            raise InvalidInput(
                f"the range holds more than {MOST_PLANS:,} plans: take a part of it, or one scope at a time"
            )
        yield from ((one.scope, moment) for moment in times)
