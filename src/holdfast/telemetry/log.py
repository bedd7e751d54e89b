"""Events as log lines: one for each attempt at INFO, none for a heartbeat; key=value text or JSON."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import assert_never

from holdfast.domain.duration import compact
from holdfast.domain.failure import Failure
from holdfast.telemetry.events import (
    AttemptEnded,
    AttemptFact,
    AttemptStarted,
    ChoreDid,
    ChoreFailed,
    Event,
    HookFailed,
    LeadershipChanged,
    LeaseLost,
    LoopBlocked,
    PlansMissed,
    ScheduleFailed,
    ScopesAwaited,
    StillRunning,
    WorkerStarted,
    WorkerStopped,
    WorkerWasLost,
)

logger = logging.getLogger("holdfast.worker")

_LEVELS: dict[type[Event], int] = {AttemptStarted: logging.DEBUG, AttemptEnded: logging.INFO}
_BAD = ("failed", "expired")
_THREAD = 'plain functions cannot be stopped, see isolate="process"'
_AT_LEAST_ONCE = "; the job may run again and repeat what this run did"
_STUBBORN = "its handler caught the CancelledError, and must raise it again"


class EventLog:
    """The reader that writes to `holdfast.worker`. Its lines carry their facts as `extra` too."""

    @staticmethod
    def hears(kind: type[Event]) -> bool:
        """Whether a line would come of it at all, as far as that is known before it happens."""
        return logger.isEnabledFor(_LEVELS.get(kind, logging.WARNING))

    def __call__(self, event: Event) -> None:  # noqa: C901, PLR0912  # a line for each event
        match event:
            case AttemptStarted():
                if logger.isEnabledFor(logging.DEBUG):
                    _line(logging.DEBUG, "attempt started", **_of(event.of))
            case AttemptEnded():
                level = _level(event)
                if logger.isEnabledFor(level):
                    _line(level, f"attempt {event.outcome}", **_of(event.of), **_ending(event))
            case LeaseLost():
                _line(
                    logging.WARNING, f"lease lost, could not {event.doing}{_AT_LEAST_ONCE}", **_of(event.of)
                )
            case StillRunning(fact, told, is_thread):
                why = _THREAD if is_thread else _STUBBORN
                _line(logging.WARNING, f"still running after its {told}: {why}", **_of(fact))
            case LoopBlocked(lasting, by, running, place):
                _line(
                    logging.WARNING,
                    "event loop blocked: nothing else runs meanwhile",
                    lasting=compact(_rounded(lasting)),
                    at=place,
                    **({"running": ", ".join(running)} if by is None else _of(by)),
                )
            case WorkerStarted(worker, queues, kinds, slots):
                _line(
                    logging.INFO,
                    "worker started",
                    worker=worker,
                    queues=",".join(queues),
                    kinds=kinds,
                    slots=slots,
                )
            case WorkerStopped(worker, released):
                _line(logging.INFO, "worker stopped", worker=worker, released=released)
            case WorkerWasLost(worker, aborted):
                _line(logging.WARNING, "worker was lost, beginning anew", worker=worker, aborted=aborted)
            case LeadershipChanged(is_leader, term):
                _line(logging.INFO, "leading" if is_leader else "no longer leading", term=term)
            case ChoreDid(chore, count):
                _line(logging.INFO, f"chore {chore}", count=count)
            case ChoreFailed(chore, error):
                # Each time: whoever runs the chore warns once for each reason.
                _line(logging.DEBUG, f"chore {chore} failed", error=f"{type(error).__name__}: {error}")
            case HookFailed(hook, kind, job, error):
                logger.error("hook %s failed: kind=%s job=%s", hook, kind, job, exc_info=error)
            case ScheduleFailed(schedule, scope, problem):
                _line(logging.ERROR, "schedule failed", schedule=schedule, scope=scope or None, error=problem)
            case ScopesAwaited(schedule, waited):
                _line(logging.WARNING, "scopes are slow to come", schedule=schedule, waited=compact(waited))
            case PlansMissed(schedule, scopes, plans, reason):
                _line(
                    logging.WARNING,
                    "plans missed",
                    schedule=schedule,
                    scopes=scopes,
                    plans=plans,
                    reason=reason,
                )
            case _:
                assert_never(event)


log_event = EventLog()


def _level(event: AttemptEnded) -> int:
    if event.outcome in _BAD:
        return logging.ERROR
    # The job waits for code that it fits, which may never come.
    is_misfit = event.failure is not None and event.failure.code == "decode_error"
    return logging.WARNING if is_misfit else logging.INFO


def _of(fact: AttemptFact) -> dict[str, object]:
    attempt = f"{fact.attempt}/{fact.max_attempts}"
    step = {} if fact.step is None else {"step": fact.step}
    return {
        "job": fact.job,
        "kind": fact.kind,
        **step,
        "queue": fact.queue,
        "attempt": attempt,
        "run": fact.run,
    }


def _ending(event: AttemptEnded) -> dict[str, object]:
    facts: dict[str, object] = {"took": compact(_rounded(event.took))}
    if event.delay is not None:
        facts["delay"] = compact(_rounded(event.delay))
    if event.failure is not None:
        facts["code"] = event.failure.code
        facts["error"] = _first_line(event.failure)
    return facts


def _first_line(failure: Failure) -> str:
    text = f"{failure.type}: {failure.message}" if failure.type else failure.message
    return text.splitlines()[0][:300] if text else ""


def _rounded(length: timedelta) -> timedelta:
    return timedelta(milliseconds=max(round(length / timedelta(milliseconds=1)), 1))


def _line(level: int, message: str, **facts: object) -> None:
    say(logger, level, message, **facts)


def say(to: logging.Logger, level: int, message: str, **facts: object) -> None:
    """A line with facts: as key=value in text, as members in JSON."""
    text = key_values(facts)
    to.log(
        level, "%s: %s" if text else "%s%s", message, text, extra={"holdfast": {"event": message, **facts}}
    )


def key_values(facts: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in facts.items() if value is not None)


def _value(value: object) -> str:
    text = _encodable(str(value))
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "=\n') else text


def _encodable(text: str) -> str:
    """Half of a surrogate pair, as an error's text may hold, would lose the whole line."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class JsonFormatter(logging.Formatter):
    """One JSON object for each line, with the facts of Holdfast's own lines as members, and with those of
    the job that a line of the user's own was written in (`holdfast_job`).
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": moment, "level": record.levelname, "logger": record.name}
        facts = getattr(record, "holdfast", None)
        if isinstance(facts, dict):
            line |= facts
        else:
            line |= {"message": record.getMessage(), **getattr(record, "holdfast_job", {})}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encodable(json.dumps(line, ensure_ascii=False, default=str))
