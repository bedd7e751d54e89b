"""How schedules and their plans look: as sentences and cells for people, as JSON for programs."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from holdfast.cli.formats import distance, moment
from holdfast.domain.duration import compact
from holdfast.domain.plan_decisions import COUNTED
from holdfast.domain.schedule_rules import Rules, rules_to_json
from holdfast.domain.timing import At, Cron, Every, Timing
from holdfast.schedules.records import PlanRecord, Schedule


def upcoming(time: datetime | None, now: datetime) -> str:
    """A plan that is due and not decided waits for a leader, or for the job before it."""
    return "due now" if time is not None and time <= now else distance(time, now)


def state(schedule: Schedule) -> str:
    """What an operator should know first."""
    if schedule.error is not None or schedule.failing:
        return "error"
    if schedule.is_paused:
        return "paused"
    if schedule.is_orphaned or not schedule.is_kind_known:
        return "orphaned"
    return "active" if schedule.next_at is not None else "ended"


def rules_words(rules: Rules | None) -> str:
    """The choices that differ from the defaults, and the two that everybody asks about."""
    if rules is None:
        return "cannot be read"
    differing = ["missed", "overlap", *json.loads(rules_to_json(rules))]
    chosen = {name: getattr(rules, name) for name in differing}
    return ", ".join(f"{name} {_worded(value)}" for name, value in chosen.items())


def _worded(value: object) -> str:
    match value:
        case timedelta():
            return compact(value)
        case datetime():
            return f"{moment(value)} UTC"
        case _:
            return str(value)


def decision(plan: PlanRecord) -> str:
    words = plan.decision.replace("_", " ")
    if plan.reason:
        words += f": {plan.reason.replace('_', ' ')}"
    if plan.count > 1:
        words += f" ({plan.count:,}{'+' if plan.count == COUNTED else ''} plans)"
    return words


def outcome(plan: PlanRecord) -> str:
    return " ".join(part for part in (plan.state, plan.error_code) if part)


def facts(schedule: Schedule, now: datetime) -> Iterator[tuple[str, str]]:
    """What `show` says, line by line."""
    yield "when", schedule.described
    if isinstance(schedule.timing, Cron):
        yield "written", f'"{schedule.timing.expression}"'
    yield "rules", rules_words(schedule.rules)
    yield "job", f"{schedule.kind}({_arguments(schedule.args)}) in queue {schedule.queue}"
    if not schedule.is_kind_known:
        yield "", "no live worker knows this job: it was renamed or removed, or its worker does not run"
    yield "origin", _origin(schedule)
    yield "state", state(schedule)
    if schedule.is_paused:
        yield from _pause(schedule, now)
    if schedule.has_scopes:
        failing = f", {schedule.failing:,} failing" if schedule.failing else ""
        yield "scopes", f"{schedule.scopes:,}{failing}"
    if schedule.error is not None:
        yield "error", schedule.error
    yield "last plan", _with_distance(schedule.last_plan_at, now) or "none yet"
    yield "next", _next(schedule.next_at, now) or "never"
    yield "history", f"kept for {compact(schedule.history)}"


def _with_distance(time: datetime | None, now: datetime) -> str:
    return "" if time is None else f"{moment(time)} UTC ({distance(time, now)})"


def _arguments(args: Any) -> str:
    if not isinstance(args, dict):
        return str(args)  # of a kind that no worker has declared: masked as a whole
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())


def _origin(schedule: Schedule) -> str:
    if not schedule.is_declared:
        return f"stored on {moment(schedule.created_at)} UTC"
    if schedule.is_orphaned:
        return "declared in code that no live worker runs any more: pause or delete it if that is meant"
    return "declared in code"


def _pause(schedule: Schedule, now: datetime) -> Iterator[tuple[str, str]]:
    yield "since", _with_distance(schedule.paused_at, now)
    yield "until", _with_distance(schedule.paused_until, now) or "it is resumed"
    if schedule.pause_note:
        yield "note", schedule.pause_note


def pause_end(schedule: Schedule) -> str:
    return f"{moment(schedule.paused_until)} UTC" if schedule.paused_until else "it is resumed"


def _next(time: datetime | None, now: datetime) -> str:
    return upcoming(time, now) if time is None or time <= now else _with_distance(time, now)


def schedule_facts(schedule: Schedule) -> dict[str, object]:
    facts = {name: value for name, value in asdict(schedule).items() if name not in ("timing", "rules")}
    facts["state"] = state(schedule)
    facts["timing"] = _timing_facts(schedule.timing)
    facts["rules"] = None if schedule.rules is None else asdict(schedule.rules)
    return facts


def plan_facts(plan: PlanRecord) -> dict[str, object]:
    return asdict(plan) | {"lag": plan.lag}


def _timing_facts(timing: Timing | None) -> dict[str, object] | None:
    match timing:
        case Cron(expression, zone):
            return {"cron": expression, "tz": zone}
        case Every(interval):
            return {"every": interval}
        case At(time):
            return {"at": time}
        case None:
            return None
