"""What programs and operators ask of schedules: conversations, held on our connection or the caller's. What
they change is in `schedule_actions.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.domain.job import check_name, check_time, is_whole
from holdfast.domain.redaction import Redactions
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
from holdfast.storage.schedules import ScheduleRow, ScopeRow

MOST_PLANS = 10_000
_PAGE = 5_000
_TICK = datetime.resolution


def get(schema: Schema, name: str) -> Conversation[Schedule]:
    row = yield from row_of(schema, name)
    return records.schedule_of(row)


def list_all(schema: Schema) -> Conversation[list[Schedule]]:
    rows = yield from ask(schedules.find(schema))
    return [records.schedule_of(row) for row in rows]


def masked(schema: Schema, found: Sequence[Schedule], declared: Redactions) -> Conversation[list[Schedule]]:
    """As people may see them: without the secrets among their arguments."""
    known = yield from redactions(schema, {each.kind for each in found}, declared)
    return [replace(each, args=known.of(each.kind).masked(each.args)) for each in found]


def _masked_plans(
    schema: Schema, name: str, found: Sequence[PlanRecord], declared: Redactions
) -> Conversation[list[PlanRecord]]:
    """The same for results. Of a schedule that was deleted it is not known what is secret in them."""
    if all(each.result is None for each in found):
        return list(found)
    kinds = [row.kind for row in (yield from ask(schedules.find(schema, name)))]
    known = yield from redactions(schema, kinds, declared)
    redaction = known.of(kinds[0] if kinds else None).below("return")
    return [replace(each, result=redaction.masked(each.result)) for each in found]


def next_times(schema: Schema, name: str, *, count: int, scope: str | None) -> Conversation[list[datetime]]:
    """The next plan times, of the schedule or of one scope in its own zone; those to be skipped are not."""
    if not is_whole(count) or not 1 <= count <= MOST_PLANS:
        raise InvalidInput(f"count is {count!r}: give 1 to {MOST_PLANS:,}")
    row = yield from row_of(schema, name)
    zone, skips = None, frozenset[datetime]()
    if scope is not None or not row.has_scopes:
        [one] = yield from scopes_of(schema, name, scope or "")
        zone = one.zone
        skips = frozenset(moment.astimezone(UTC) for moment in one.skips or ())
    timing, rules = read_schedule(row.timing, row.rules, zone)
    times = upcoming(timing, rules, row.now.astimezone(UTC), count + len(skips))
    return [moment for moment in times if moment not in skips][:count]


def plans(
    schema: Schema,
    name: str,
    declared: Redactions,
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
        yield from row_of(schema, name)
    found = [records.record_of(row) for row in rows]
    return (yield from _masked_plans(schema, name, found, declared))


def preview(
    schema: Schema, name: str, *, first: datetime, last: datetime, scope: str | None
) -> Conversation[list[BackfillPlan]]:
    """The plans of a range, oldest first, with what a backfill would do to each."""
    row = yield from row_of(schema, name)
    first, last = _range(row, first, last)
    scopes = yield from scopes_of(schema, name, scope)
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


def row_of(schema: Schema, name: str) -> Conversation[ScheduleRow]:
    check_name("schedule", name)
    rows = yield from ask(schedules.find(schema, name))
    if not rows:
        raise (yield from not_found(schema, name))
    return rows[0]


def not_found(schema: Schema, name: str) -> Conversation[ScheduleNotFound]:
    """The error for a name that no schedule has, with the one that may have been meant."""
    stored = yield from ask(schedules.find(schema))
    return ScheduleNotFound(name, near=did_you_mean(name, (row.name for row in stored)))


def scopes_of(schema: Schema, name: str, scope: str | None) -> Conversation[list[ScopeRow]]:
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
