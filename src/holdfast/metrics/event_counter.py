"""Counts what events tell. The end of a run comes for every job: it costs a few additions, and no label is
looked up by name.
"""

from bisect import bisect_left
from typing import Final

from holdfast.metrics.catalogue import (
    CHORE_FAILURES,
    CHORE_ROWS,
    EXPIRED,
    HOOK_FAILURES,
    LEASES_LOST,
    LOOP_BLOCKED,
    PLANS_MISSED,
    RESCUES,
    RUN_SECONDS,
    RUNS,
    SCHEDULE_FAILURES,
    SECONDS,
    WAIT_SECONDS,
    WORKERS_LOST,
)
from holdfast.metrics.figures import Distribution, Figures
from holdfast.telemetry.events import (
    AttemptEnded,
    AttemptStarted,
    ChoreDid,
    ChoreFailed,
    Event,
    HookFailed,
    JobExpired,
    JobsExpired,
    LeaseWasLost,
    LoopBlocked,
    PlansMissed,
    RunTakenAway,
    ScheduleFailed,
    WorkerWasLost,
)

_WIDTH: Final = len(SECONDS) + 1


class _Ends:
    """Runs of one kind and queue that ended alike: how long they took, and how long their jobs waited."""

    __slots__ = ("took", "took_seconds", "waited", "waited_seconds")

    def __init__(self) -> None:
        self.took = [0] * _WIDTH
        self.waited = [0] * _WIDTH
        self.took_seconds = 0.0
        self.waited_seconds = 0.0


class EventCounter:
    """A reader of events. It is called on the event loop; `figures` from any thread, where a run that is just
    being counted may be in one figure and not yet in another.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str, str], _Ends] = {}
        self._others = Figures()

    @staticmethod
    def hears(kind: type[Event]) -> bool:
        return kind is not AttemptStarted

    def __call__(self, event: Event) -> None:
        if type(event) is AttemptEnded:
            fact = event.of
            key = (fact.kind, fact.queue, event.outcome)
            ends = self._ends.get(key)
            if ends is None:
                ends = self._ends[key] = _Ends()
            seconds = event.took.total_seconds()
            ends.took[bisect_left(SECONDS, seconds)] += 1
            ends.took_seconds += seconds
            if event.waited is not None:
                seconds = event.waited.total_seconds()
                ends.waited[bisect_left(SECONDS, seconds)] += 1
                ends.waited_seconds += seconds
        else:
            self._count(event)

    def _count(self, event: Event) -> None:  # noqa: C901  # a line for each
        add = self._others.add
        match event:
            case LeaseWasLost(of):
                add(LEASES_LOST, 1, of.kind, of.queue)
            case RunTakenAway():
                add(RUNS, 1, event.kind, event.queue, event.outcome)
                add(RESCUES, 1, event.kind, event.queue, event.failure.code)
            case JobExpired(_, kind, queue):
                add(EXPIRED, 1, kind, queue)
            case JobsExpired(kind, queue, count):
                add(EXPIRED, count, kind, queue)
            case WorkerWasLost():
                add(WORKERS_LOST, 1)
            case ChoreDid(chore, count):
                add(CHORE_ROWS, count, chore)
            case ChoreFailed(chore):
                add(CHORE_FAILURES, 1, chore)
            case PlansMissed(schedule, _, plans, reason):
                add(PLANS_MISSED, plans, schedule, reason)
            case ScheduleFailed(schedule):
                add(SCHEDULE_FAILURES, 1, schedule)
            case HookFailed(hook, kind):
                add(HOOK_FAILURES, 1, kind, hook)
            case LoopBlocked():
                add(LOOP_BLOCKED, 1)
            case _:
                pass  # nothing that is counted

    def figures(self) -> Figures:
        """All that was counted so far."""
        figures = Figures()
        for (kind, queue, outcome), ends in list(self._ends.items()):
            took, waited = list(ends.took), list(ends.waited)
            figures.add(RUNS, sum(took), kind, queue, outcome)
            figures.add_distribution(RUN_SECONDS, Distribution(took, ends.took_seconds), kind, queue)
            figures.add_distribution(WAIT_SECONDS, Distribution(waited, ends.waited_seconds), queue)
        for name, values in list(self._others.values.items()):
            of_metric = figures.values.setdefault(name, {})
            for labels, value in list(values.items()):
                of_metric[labels] = of_metric.get(labels, 0.0) + value
        return figures
