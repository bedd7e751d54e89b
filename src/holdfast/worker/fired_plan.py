"""The plan of a schedule that a job was fired for, read from the job's origin."""

from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.domain.origin import read_origin

_LATE = frozenset({"caught_up", "backfilled"})


@dataclass(frozen=True, slots=True)
class Plan:
    """`time` is the plan time in UTC. It stays the same however late the job runs and however often it is
    retried. `scope` is empty for a schedule of the whole app.
    """

    schedule: str
    scope: str
    time: datetime
    decision: str

    @property
    def is_late(self) -> bool:
        """Whether it was caught up or backfilled, and not fired at its time."""
        return self.decision in _LATE


def plan_of(origin: str | None) -> Plan | None:
    """None for a job that no schedule fired."""
    match read_origin(origin):
        case {
            "schedule": str(schedule),
            "scope": str(scope),
            "plan_time": str(time),
            "decision": str(decision),
        }:
            return Plan(schedule, scope, datetime.fromisoformat(time).astimezone(UTC), decision)
    return None
