"""What becomes of each plan that is due, told plan by plan from a list of all: slow, and easy to believe."""

from datetime import datetime, timedelta

from holdfast.domain.plan_decisions import ScopeStanding
from holdfast.domain.schedule_rules import Rules

Fate = tuple[datetime, str]


def fates(due: list[datetime], rules: Rules, standing: ScopeStanding, now: datetime) -> list[Fate]:
    """Fates of the oldest ones of `due`; those that are left out stay due."""
    told: list[Fate] = []
    active, room = standing.active_since, rules.max_per_pass or 100
    for plan in due:
        fate = _dropped(plan, due, rules, standing, now)
        if fate == "missed coalesced" and _follows_one_that_waits(plan, due, rules, standing):
            return told
        if fate is None:
            if _waits(plan, active, rules, standing) or (rules.missed != "latest" and room == 0):
                return told
            room -= 1
            if plan in standing.skips:
                fate = "skipped asked"
            elif active is not None and rules.overlap != "allow":
                fate = "skipped overlap"
            else:
                is_on_time = plan == due[-1] and now - plan <= timedelta(minutes=1)
                fate = "fired" if is_on_time else "caught_up"
                active = active or now
        told.append((plan, fate))
    return told


def _waits(plan: datetime, active: datetime | None, rules: Rules, standing: ScopeStanding) -> bool:
    if active is None or plan in standing.skips:
        return False
    return rules.overlap == "queue" or (rules.overlap == "skip" and active > plan)


def _follows_one_that_waits(
    plan: datetime, due: list[datetime], rules: Rules, standing: ScopeStanding
) -> bool:
    """What is coalesced into a plan that waits is told together with it, unless a pause lies in between."""
    latest, pause = _latest(due, standing), standing.pause
    is_apart = pause is not None and pause.until is not None and plan < pause.since and latest >= pause.until
    return _waits(latest, standing.active_since, rules, standing) and not is_apart


def _dropped(
    plan: datetime, due: list[datetime], rules: Rules, standing: ScopeStanding, now: datetime
) -> str | None:
    pause = standing.pause
    if pause is not None and (pause.is_on(now) or pause.is_on(plan)):
        return "skipped paused"
    if rules.missed == "latest":
        return "missed coalesced" if plan < _latest(due, standing) else None
    if rules.missed == "every" and rules.window is not None and now - plan > rules.window:
        return "missed outside_window"
    if rules.missed == "skip" and now - plan > (rules.max_lateness or timedelta(minutes=1)):
        return "skipped too_late"
    return None


def _latest(due: list[datetime], standing: ScopeStanding) -> datetime:
    """The latest that nothing speaks against; the first of all if there is none."""
    pause = standing.pause
    wanted = [
        plan for plan in due if plan not in standing.skips and not (pause is not None and pause.is_on(plan))
    ]
    return wanted[-1] if wanted else due[0]
