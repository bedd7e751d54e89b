"""What an operation can do to the jobs of a batch, by the action's name; and which jobs it can concern."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, get_args

from holdfast.domain.duration import duration
from holdfast.domain.job import check_name, check_priority, is_whole
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.retention import Retention
from holdfast.domain.states import FINAL_STATES, JobState
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import Conversation
from holdfast.postgres.schema import Schema
from holdfast.storage import job_verbs, operators
from holdfast.worker.cancel_log import log_cancelled

ActionName = Literal["cancel", "retry", "resume", "reprioritise", "reschedule", "move", "delete"]
ACTIONS: tuple[ActionName, ...] = get_args(ActionName)

Answers = dict[int, str]
Verb = Callable[[Schema, Sequence[int]], Conversation[Answers]]

_ACTIVE: frozenset[JobState] = frozenset({"gated", "ready", "scheduled", "waiting", "running", "lost"})
_IN_LINE: frozenset[JobState] = frozenset({"gated", "ready", "scheduled"})
_ELIGIBLE: dict[ActionName, frozenset[JobState]] = {
    "cancel": _ACTIVE,
    "retry": frozenset({"failed"}),
    "resume": frozenset({"failed"}),
    "reprioritise": _ACTIVE - {"lost"},
    "reschedule": _IN_LINE,
    "move": _IN_LINE,
    "delete": _IN_LINE | FINAL_STATES,
}
_RULES: dict[ActionName, str] = {
    "cancel": "only jobs that have not ended can be cancelled",
    "retry": "only failed jobs can be retried",
    "resume": "only failed jobs can be resumed",
    "reprioritise": "only jobs that have not ended can be reprioritised",
    "reschedule": "only ready, gated and scheduled jobs can be rescheduled",
    "move": "only ready, gated and scheduled jobs can be moved",
    "delete": "only jobs that have ended, or are ready, gated or scheduled, can be deleted",
}


def can_concern(action: ActionName, state: JobState) -> bool:
    """Whether the action does anything with a job in this state."""
    return state in _ELIGIBLE[action]


@dataclass(frozen=True, slots=True)
class BulkAction:
    """An action with its parameters, checked. `when` is a moment in ISO 8601 or a length of time. `limit`:
    how many jobs it looks at, at most.
    """

    name: ActionName
    parameters: Mapping[str, Any]
    limit: int | None = None

    @classmethod
    def of(cls, name: object, parameters: Mapping[str, Any]) -> "BulkAction":
        """Raises InvalidInput if there is no such action, or if it does not take these parameters."""
        found = next((each for each in ACTIONS if each == name), None)
        if found is None:
            raise InvalidInput(f"action is {name!r}: give {', '.join(ACTIONS)}")
        given = dict(parameters)
        limit = _limit(given.pop("limit", None))
        wanted = {"reprioritise": {"priority"}, "reschedule": {"when"}, "move": {"queue"}}.get(found, set())
        if set(given) != wanted:
            takes = " and ".join(sorted(wanted)) or "no parameters"
            raise InvalidInput(f"{found} takes {takes}, not {', '.join(sorted(given)) or 'none'}")
        action = cls(found, {key: _plain(value) for key, value in given.items()}, limit)
        action._check()
        return action

    def stored(self) -> dict[str, Any]:
        """As `of` reads it."""
        return {**self.parameters, **({} if self.limit is None else {"limit": self.limit})}

    def can_concern(self, state: JobState) -> bool:
        return can_concern(self.name, state)

    @property
    def rule(self) -> str:
        """Why it skips a job, for people."""
        return _RULES[self.name]

    def verb(self, job_filter: JobFilter, retention: Retention, reason: str | None) -> Verb:
        """What is done with the jobs of a batch."""
        given = self.parameters
        told = reason or ON_REQUEST
        # A failed job that another operator has just retried is no longer meant by state:failed.
        is_about_ended = bool(job_filter.failures) or (
            bool(job_filter.states) and set(job_filter.states) <= FINAL_STATES
        )
        verbs: dict[ActionName, Verb] = {
            "cancel": partial(
                operators.cancel, retention=retention, reason=told, on_ended=partial(log_cancelled, told)
            ),
            "retry": operators.retry_dead,
            "resume": operators.resume_dead,
            "reprioritise": partial(operators.reprioritise, priority=given.get("priority", 0)),
            "reschedule": partial(job_verbs.reschedule, **read_when(given.get("when", "0s"))),
            "move": partial(job_verbs.move, queue=given.get("queue", "")),
            "delete": partial(job_verbs.delete, with_waiting=not is_about_ended),
        }
        return verbs[self.name]

    def _check(self) -> None:
        match self.name:
            case "reprioritise":
                check_priority(self.parameters["priority"])
            case "reschedule":
                read_when(self.parameters["when"])
            case "move":
                check_name("queue", self.parameters["queue"])
            case _:
                pass

    def __str__(self) -> str:
        words = "".join(f" {key}={value}" for key, value in self.parameters.items())
        return f"{self.name}{words}"


def read_when(when: object) -> dict[str, Any]:
    """A moment, also as text, or a length from now: what `reschedule` takes."""
    if isinstance(when, datetime):
        return {"run_at": when, "delay": None}
    if isinstance(when, str):
        try:
            moment = datetime.fromisoformat(when)
        except ValueError:
            moment = None
        if moment is not None:
            return {"run_at": moment, "delay": None}
    return {"run_at": None, "delay": duration(when, name="when")}


def _limit(limit: Any) -> int | None:
    if limit is None:
        return None
    if not is_whole(limit) or limit < 1:
        raise InvalidInput(f"limit is {limit!r}: give a whole number from 1 on, or None for all")
    return int(limit)


def _plain(value: object) -> Any:
    """As JSON can keep it."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return f"{value / timedelta(milliseconds=1):.3f}ms"
        case _:
            return value
