"""Figures over time: values for charts, tables and metrics."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.domain.states import ContinuingOutcome, FinalState

Outcome = FinalState | ContinuingOutcome


@dataclass(frozen=True, slots=True)
class Spread:
    """Lengths of time of many runs. The percentiles are right to within a tenth; None if there was no run.
    `histogram` has, in ascending order, lengths and how many runs were about so long.
    """

    runs: int
    mean: timedelta | None
    p50: timedelta | None
    p95: timedelta | None
    p99: timedelta | None
    histogram: tuple[tuple[timedelta, int], ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """What happened in a time. `enqueued` are jobs; `started` are runs, those that still run too. `outcomes`
    says how many runs ended how, jobs that ended without a run among them. `wait` is from the moment a run
    was due to its start, `run` from there to its end, both of the runs that ended.
    """

    enqueued: int
    started: int
    outcomes: dict[Outcome, int]
    wait: Spread
    run: Spread

    @property
    def ended(self) -> int:
        return sum(self.outcomes.values())

    @property
    def succeeded(self) -> int:
        return self.outcomes.get("succeeded", 0)

    @property
    def failed(self) -> int:
        """Runs that failed, whether their job is retried or dead."""
        return self.outcomes.get("failed", 0) + self.outcomes.get("retried", 0)

    @property
    def failure_share(self) -> float | None:
        """Of the runs that succeeded or failed, which part failed; None if there was none."""
        decided = self.succeeded + self.failed
        return self.failed / decided if decided else None


@dataclass(frozen=True, slots=True)
class FigurePoint:
    """A piece of time, from `at` on."""

    at: datetime
    figures: Figures


@dataclass(frozen=True, slots=True)
class NamedFigures:
    """The figures of a queue, or of a kind."""

    name: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures from `since` to `until`: all together, for each piece of `resolution` (those in which nothing
    happened too), for each queue and for each kind (by name). The first piece is whole, so `since` may be
    earlier than was asked for. `now` is the database's time.
    """

    since: datetime
    until: datetime
    resolution: timedelta
    total: Figures
    points: tuple[FigurePoint, ...]
    queues: tuple[NamedFigures, ...]
    kinds: tuple[NamedFigures, ...]
    now: datetime
