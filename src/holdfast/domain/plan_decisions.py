"""Which plans of a schedule are decided now, and how: one pure, total function of its standing and the clock.

The leader asks it for one (schedule, scope) at a time. The answer is written with a compare-and-swap on
`last_plan_at`, so no plan is decided twice. What it leaves undecided is still due at the next look, so no
plan is lost.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, assert_never

from holdfast.domain.schedule_rules import LATENESS, PER_PASS, Rules
from holdfast.domain.timing import Timing

Decision = Literal["fired", "caught_up", "skipped", "missed"]
Reason = Literal["overlap", "paused", "too_late", "asked", "coalesced", "outside_window"]

ON_TIME = timedelta(minutes=1)
COUNTED = 1_000
_TICK = datetime.resolution
_SOONEST_LOOK = timedelta(seconds=1)
_LATEST_LOOK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Pause:
    """From `since` up to, not at, `until`; without an end it lasts until an operator resumes."""

    since: datetime
    until: datetime | None = None

    def is_on(self, moment: datetime) -> bool:
        return self.since <= moment and (self.until is None or moment < self.until)


@dataclass(frozen=True, slots=True)
class ScopeStanding:
    """What is known of one scope of a schedule before the look.

    `since`: from when on this timing is in force (its creation, or the moment it was changed); plans later
    than this and than `last_plan_at` are to be decided. `active_since`: when the oldest job of an earlier
    plan that is still active was fired; None if there is none. `pause` stays known after its end, so that the
    plans within it are not taken for missed ones. `skips`: plan times that an operator asked to leave out.
    """

    schedule: str
    scope: str
    since: datetime
    last_plan_at: datetime | None = None
    active_since: datetime | None = None
    pause: Pause | None = None
    skips: frozenset[datetime] = frozenset()

    @property
    def decided_until(self) -> datetime:
        return self.since if self.last_plan_at is None else max(self.since, self.last_plan_at)


@dataclass(frozen=True, slots=True)
class Decided:
    """A row of the plan ledger. It has a job if `run_at` is set.

    One row may stand for all plans of a stretch that were dropped for the same reason: then `plan_time` is
    the last and `earliest` the first of them, and `count` how many (`COUNTED` means that many or more).
    """

    plan_time: datetime
    decision: Decision
    reason: Reason | None = None
    run_at: datetime | None = None
    count: int = 1
    earliest: datetime | None = None


@dataclass(frozen=True, slots=True)
class PlanDecisions:
    """What one look decided, oldest plan first; where the scope stands then; when to look again, if ever."""

    decided: tuple[Decided, ...]
    last_plan_at: datetime | None
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Moments later than `after`, up to `until`."""

    after: datetime
    until: datetime
    is_paused: bool = False


def decide_plans(timing: Timing, rules: Rules, standing: ScopeStanding, now: datetime) -> PlanDecisions:
    """Decide every plan that has come due since the last look, missed ones too: here a plan becomes a job, or
    not. A plan has a job if it was `fired` (on time) or `caught_up` (later); one that is `skipped` or
    `missed` has none, and a reason. `rules.missed` chooses: "latest" fires the last of them, "every" each one
    within the window, "skip" none that is too late. A pause or an active job (`rules.overlap`) comes first.

    `schedules/planner.py` asks for it and writes the answer, each plan with its job in one statement. `now`
    is the database's. The work is bounded, however long ago the last look was.
    """
    after, until = standing.decided_until, now
    if rules.starts_at is not None:
        after = max(after, rules.starts_at - _TICK)
    if rules.ends_at is not None:
        until = min(until, rules.ends_at - _TICK)
    newest = timing.latest(until, after) if until > after else None
    if newest is None:
        return PlanDecisions((), standing.last_plan_at, _next_plan(timing, rules, max(after, until)))
    room = rules.max_per_pass or PER_PASS
    look = _Deciding(timing, rules, standing, now, newest, standing.active_since, room)
    look.through(_stretches(timing, standing.pause, now, _Stretch(after, until)))
    last = look.rows[-1].plan_time if look.rows else standing.last_plan_at
    return PlanDecisions(tuple(look.rows), last, look.next_at(until))


@dataclass(slots=True)
class _Deciding:
    """A look under way: rows gather until the plans that are due are through, or one of them must wait."""

    timing: Timing
    rules: Rules
    standing: ScopeStanding
    now: datetime
    newest: datetime
    active_since: datetime | None
    room: int
    rows: list[Decided] = field(default_factory=list)
    is_waiting: bool = False
    is_cut: bool = False

    def through(self, stretches: list[_Stretch]) -> None:
        latest = [self._wanted(stretch) for stretch in stretches if not stretch.is_paused]
        for stretch in stretches:
            if stretch.is_paused:
                self._drop(stretch.after, stretch.until, "skipped", "paused")
            elif self.rules.missed == "latest" and any(plan and plan > stretch.until for plan in latest):
                self._drop(stretch.after, stretch.until, "missed", "coalesced")
            else:
                self._decide(stretch)
            if self.is_waiting or self.is_cut:
                return

    def _decide(self, stretch: _Stretch) -> None:
        match self.rules.missed:
            case "latest":
                self._latest(stretch)
            case "every":
                oldest = None if self.rules.window is None else self.now - self.rules.window
                self._each(stretch, oldest, "missed", "outside_window")
            case "skip":
                oldest = self.now - (self.rules.max_lateness or LATENESS)
                self._each(stretch, oldest, "skipped", "too_late")
            case _:
                assert_never(self.rules.missed)

    def _latest(self, stretch: _Stretch) -> None:
        after, plan = stretch.after, self._wanted(stretch)
        if plan is not None:
            if self._must_wait(plan):
                return
            self._drop(after, plan - _TICK, "missed", "coalesced")
            self._take(plan)
            after = plan
        for asked in sorted(self.standing.skips):
            if self.timing.latest(asked, after) == asked <= stretch.until:
                self._take(asked)

    def _wanted(self, stretch: _Stretch) -> datetime | None:
        """The latest plan that no operator asked to skip."""
        plan = self.timing.latest(stretch.until, stretch.after)
        while plan is not None and plan in self.standing.skips:
            plan = self.timing.latest(plan - _TICK, stretch.after)
        return plan

    def _each(self, stretch: _Stretch, oldest: datetime | None, decision: Decision, reason: Reason) -> None:
        after = stretch.after
        if oldest is not None and oldest - _TICK > after:
            self._drop(after, min(oldest - _TICK, stretch.until), decision, reason)
            after = oldest - _TICK
        plans = self.timing.between(after, stretch.until, self.room + 1)
        for plan in plans[: self.room]:
            if self._must_wait(plan):
                return
            self._take(plan)
        self.is_cut = len(plans) > self.room
        self.room -= len(plans)

    def _must_wait(self, plan: datetime) -> bool:
        """A queued plan waits for the earlier job. So does one that would be skipped, if that job was fired
        after the plan's time: then it was missed, and does not overlap but follows in the same catching up.
        """
        if self.active_since is None or self.rules.overlap == "allow" or plan in self.standing.skips:
            return False
        if self.rules.overlap == "queue" or self.active_since > plan:
            self.is_waiting = True
        return self.is_waiting

    def _take(self, plan: datetime) -> None:
        if plan in self.standing.skips:
            self.rows.append(Decided(plan, "skipped", "asked"))
        elif self.active_since is not None and self.rules.overlap != "allow":
            self.rows.append(Decided(plan, "skipped", "overlap"))
        else:
            is_late = plan < self.newest or self.now - plan > ON_TIME
            self.rows.append(Decided(plan, "caught_up" if is_late else "fired", run_at=self._run_at(plan)))
            self.active_since = self.active_since or self.now

    def _drop(self, after: datetime, until: datetime, decision: Decision, reason: Reason) -> None:
        last = self.timing.latest(until, after) if until > after else None
        if last is not None:
            count = self.timing.count(after, until, COUNTED)
            earliest = self.timing.first_after(after)
            self.rows.append(Decided(last, decision, reason, count=count, earliest=earliest))

    def _run_at(self, plan: datetime) -> datetime:
        """Late jobs are spread out from now on: after an outage they would all run at once."""
        due = plan + self.rules.delay
        return (due if self.now - due <= ON_TIME else self.now) + self._jitter(plan)

    def _jitter(self, plan: datetime) -> timedelta:
        if not self.rules.jitter:
            return self.rules.jitter
        seed = f"{self.standing.schedule}\0{self.standing.scope}\0{plan.isoformat()}"
        luck = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8]) / 2**64
        return self.rules.jitter * luck

    def next_at(self, checked: datetime) -> datetime | None:
        """A plan that waits is looked at again after a tenth of the time that the job before it has taken."""
        if self.is_waiting:
            taken = self.now - (self.active_since or self.now)
            return self.now + min(max(taken / 10, _SOONEST_LOOK), _LATEST_LOOK)
        if self.is_cut:
            return self.now
        return _next_plan(self.timing, self.rules, checked)


def _next_plan(timing: Timing, rules: Rules, after: datetime) -> datetime | None:
    plan = timing.first_after(after)
    return plan if plan is None or rules.ends_at is None or plan < rules.ends_at else None


def _stretches(timing: Timing, pause: Pause | None, now: datetime, whole: _Stretch) -> list[_Stretch]:
    """Before, during and after the pause, where there are plans. While it is on, nothing fires at all."""
    if pause is None:
        return [whole]
    if pause.is_on(now):
        return [_Stretch(whole.after, whole.until, is_paused=True)]
    begin = min(max(pause.since - _TICK, whole.after), whole.until)
    end = begin if pause.until is None else min(max(pause.until - _TICK, begin), whole.until)
    parts = [
        _Stretch(whole.after, begin),
        _Stretch(begin, end, is_paused=True),
        _Stretch(end, whole.until),
    ]
    return [part for part in parts if part.after < part.until and timing.latest(part.until, part.after)]
