"""A schedule's life, simulated: looks at odd moments, jobs that take their time, and every row kept."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.domain.plan_decisions import Decided, Pause, PlanDecisions, ScopeStanding, decide_plans
from holdfast.domain.schedule_rules import Rules
from holdfast.domain.timing import Timing

TICK = timedelta(microseconds=1)


@dataclass
class Life:
    """What a planner would keep of one scope between looks."""

    timing: Timing
    rules: Rules
    since: datetime
    lasting: timedelta = timedelta()
    pause: Pause | None = None
    skips: frozenset[datetime] = frozenset()
    last_plan_at: datetime | None = None
    rows: list[Decided] = field(default_factory=list)
    fired: list[tuple[datetime, Decided]] = field(default_factory=list)

    def look(self, now: datetime) -> PlanDecisions:
        """Decide and keep, as one statement would."""
        standing = self.standing(now)
        look = decide_plans(self.timing, self.rules, standing, now)
        assert look == decide_plans(self.timing, self.rules, standing, now), "not the same twice"
        self.last_plan_at = look.last_plan_at
        self.rows += look.decided
        self.fired += [(now, row) for row in look.decided if row.run_at is not None]
        return look

    def standing(self, now: datetime) -> ScopeStanding:
        return ScopeStanding(
            schedule="s",
            scope="",
            since=self.since,
            last_plan_at=self.last_plan_at,
            active_since=min((at for at, _ in self.fired if now < at + self.lasting), default=None),
            pause=self.pause,
            skips=self.skips,
        )

    def planned(self, until: datetime) -> list[datetime]:
        """Every plan time of this life, told without any of the planning."""
        plans = self.timing.between(self.since, until, 100_000)
        begin, end = self.rules.starts_at or self.since, self.rules.ends_at or until + TICK
        return [plan for plan in plans if begin <= plan < end]

    def told(self, until: datetime) -> list[datetime]:
        """The plan times that its rows stand for, in their order."""
        planned = self.planned(until)
        told: list[datetime] = []
        for row in self.rows:
            covered = [plan for plan in planned if (row.earliest or row.plan_time) <= plan <= row.plan_time]
            assert row.count == len(covered)
            told += covered
        return told
