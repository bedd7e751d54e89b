"""Which line of the log an event becomes: one for each attempt at INFO, none for a heartbeat."""

import logging
from datetime import timedelta
from typing import assert_never

from holdfast.domain.duration import compact
from holdfast.domain.states import RunOutcome
from holdfast.telemetry.error_line import first_line
from holdfast.telemetry.events import (
    AttemptEnded,
    AttemptFact,
    AttemptStarted,
    ChoreDid,
    ChoreFailed,
    Event,
    HookFailed,
    HooksUntold,
    JobExpired,
    JobsExpired,
    LeadershipChanged,
    LeaseWasLost,
    LoopBlocked,
    NobodyServes,
    PlansMissed,
    RunsLeftUnsettled,
    RunTakenAway,
    ScheduleFailed,
    ScopesAwaited,
    SlotsChanged,
    StillRunning,
    StopAsked,
    WorkerQuietened,
    WorkerStarted,
    WorkerStopped,
    WorkerWasLost,
)
from holdfast.telemetry.log_lines import escaped, say
from holdfast.telemetry.success_line import SuccessLine, is_plain_success

logger = logging.getLogger("holdfast.worker")

_success_line = SuccessLine(logger)
_LEVELS: dict[type[Event], int] = {AttemptStarted: logging.DEBUG, AttemptEnded: logging.INFO}
_NAMED = 20
_THREAD = 'plain functions cannot be stopped, see isolate="process"'
_AT_LEAST_ONCE = "; the job may run again and repeat this run's effects"
_NOT_BEGUN = "; the handler was not called, and the job runs elsewhere"
_STUBBORN = (
    "its handler has not ended: it is cleaning up, or it caught the CancelledError and must raise it again"
)


class EventLog:
    """The reader that writes to `holdfast.worker`. Its lines carry their facts as `extra` too."""

    @staticmethod
    def hears(kind: type[Event]) -> bool:
        """Whether a line would come of it at all, as far as that is known before it happens."""
        return logger.isEnabledFor(_LEVELS.get(kind, logging.WARNING))

    def __call__(self, event: Event) -> None:  # noqa: C901, PLR0912, PLR0915  # a line for each event
        match event:
            case AttemptStarted():
                if logger.isEnabledFor(logging.DEBUG):
                    _line(logging.DEBUG, "attempt started", **_of(event.of))
            case AttemptEnded() if is_plain_success(event):
                _success_line.say(event)
            case AttemptEnded():
                level = _level(event)
                if logger.isEnabledFor(level):
                    facts = {**_of(event.of), **_ending(event)}
                    waiting = event.waiting and f", waiting {escaped(event.waiting)}"
                    say(logger, level, _ended(event), _traceback(event), waiting, event.error, **facts)
            case LeaseWasLost():
                _line(logging.WARNING, _lease_lost(event), **_of(event.of))
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
            case RunsLeftUnsettled(worker, jobs, lease):
                _line(
                    logging.ERROR,
                    "stopped while the database did not answer: runs could not be settled, and the leader "
                    "rescues their jobs when this worker's lease has ended",
                    worker=worker,
                    runs=len(jobs),
                    jobs=_some(jobs),
                    within=compact(lease),
                )
            case WorkerQuietened(worker, is_quiet, running, by, reason):
                _line(
                    logging.INFO,
                    "quiet: claiming nothing until told to go on" if is_quiet else "going on: claiming again",
                    worker=worker,
                    running=running,
                    by=by,
                    reason=reason,
                )
            case SlotsChanged(worker, queue, slots, before):
                _line(logging.INFO, "slots changed", worker=worker, queue=queue, slots=slots, before=before)
            case StopAsked(worker, is_now, running, by, reason):
                _line(
                    logging.INFO,
                    "asked to stop at once: releasing the running jobs" if is_now else "asked to stop",
                    worker=worker,
                    running=running,
                    by=by,
                    reason=reason,
                )
            case WorkerWasLost(worker, aborted):
                _line(
                    logging.WARNING,
                    "worker lost its lease, registering again",
                    worker=worker,
                    aborted=aborted,
                )
            case LeadershipChanged(is_leader, term):
                _line(logging.INFO, "leading" if is_leader else "no longer leading", term=term)
            case ChoreDid(chore, count):
                # Every delay and every retry ends in a promote, many times a minute.
                _line(logging.DEBUG if chore == "promote" else logging.INFO, f"chore {chore}", count=count)
            case ChoreFailed(chore, error):
                # Each time. The chore's loop warns once for each reason.
                _line(logging.DEBUG, f"chore {chore} failed", error=f"{type(error).__name__}: {error}")
            case RunTakenAway():
                level = logging.ERROR if _is_bad_end(event.outcome) else logging.WARNING
                _line(
                    level,
                    f"run taken away, {event.outcome}",
                    job=event.job,
                    kind=event.kind,
                    queue=event.queue,
                    attempt=event.attempt,
                    max_attempts=event.max_attempts,
                    run=event.run,
                    worker=event.worker,
                    host=event.host,
                    pid=event.pid,
                    code=event.failure.code,
                    error=first_line(event.failure),
                )
            case JobExpired(job, kind, queue, attempt):
                _line(
                    logging.ERROR,
                    "job expired: it waited past its deadline",
                    job=job,
                    kind=kind,
                    queue=queue,
                    attempt=attempt,
                )
            case JobsExpired(kind, queue, count):
                _line(
                    logging.ERROR,
                    "more jobs expired: they waited past their deadlines",
                    kind=kind,
                    queue=queue,
                    count=count,
                )
            case HooksUntold(kind, outcome, count, job):
                _line(
                    logging.WARNING,
                    "hooks not called for ten minutes: no live worker knows the kind",
                    kind=kind,
                    outcome=outcome,
                    count=count,
                    job=job,
                )
            case NobodyServes():
                _line(
                    logging.WARNING,
                    _unserved(event) + event.near,
                    schedule=event.schedule,
                    queue=event.queue,
                    kind=event.kind,
                )
            case HookFailed(hook, kind, job, error):
                logger.error("hook %s failed: kind=%s job=%s", hook, kind, job, exc_info=error)
            case ScheduleFailed(schedule, scope, problem):
                _line(logging.ERROR, "schedule failed", schedule=schedule, scope=scope or None, error=problem)
            case ScopesAwaited(schedule, waited):
                _line(logging.WARNING, "scopes are slow to load", schedule=schedule, waited=compact(waited))
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


def _some(ids: tuple[int, ...]) -> str:
    more = len(ids) - _NAMED
    return ",".join(map(str, ids[:_NAMED])) + (f" and {more} more" if more > 0 else "")


def _lease_lost(event: LeaseWasLost) -> str:
    then = _NOT_BEGUN if event.doing == "begin" else _AT_LEAST_ONCE
    return f"lease lost, could not {event.doing}{then}"


def _unserved(event: NobodyServes) -> str:
    if event.schedule is not None:
        return "no live worker knows the kind of this schedule: its jobs will wait"
    if event.is_quiet:
        return "every live worker that could run these jobs is quiet or stopping: they wait"
    if event.kind is None:
        return "no live worker serves this queue: its jobs wait"
    if event.queue is None:
        return "no live worker knows this kind: its jobs wait"
    return "no live worker that serves this queue knows this kind: its jobs wait"


def _is_bad_end(outcome: RunOutcome) -> bool:
    """Whether the job has ended without a result, although nobody asked for that."""
    match outcome:
        case "failed" | "expired":
            return True
        case "succeeded" | "cancelled" | "retried" | "snoozed" | "released":
            return False
        case _:
            assert_never(outcome)


def _level(event: AttemptEnded) -> int:
    if _is_bad_end(event.outcome):
        return logging.ERROR
    # Something went wrong, and may go wrong until the job is out of attempts; or the job was kept from
    # running at all, and may be until it is dead: its arguments do not fit, or an earlier run has not ended.
    is_wrong = event.outcome == "retried" or (event.outcome == "snoozed" and event.failure is not None)
    return logging.WARNING if is_wrong or event.flag is not None else logging.INFO


def _of(fact: AttemptFact) -> dict[str, object]:
    step = {} if fact.step is None else {"step": fact.step}
    return {
        "job": fact.job,
        "kind": fact.kind,
        **step,
        "queue": fact.queue,
        "attempt": fact.attempt,
        "max_attempts": fact.max_attempts,
        "run": fact.run,
    }


def _ended(event: AttemptEnded) -> str:
    """The ledger also says snoozed for a machine that moves on at once, which reads like a wait."""
    return f"attempt {event.outcome}" if event.next_step is None else "attempt moved to the next step"


def _ending(event: AttemptEnded) -> dict[str, object]:
    tags = {"tags": ",".join(event.tags)} if event.tags else {}  # Sentry keeps only the first ten facts
    facts: dict[str, object] = {**tags, "took_ms": _milliseconds(event.took)}
    if event.delay is not None:
        facts["delay_ms"] = _milliseconds(event.delay)
    if event.failure is not None:
        facts["code"] = event.failure.code
        facts["error"] = first_line(event.failure)
    if event.waiting is not None:
        facts["waiting"] = event.waiting
    if event.next_step is not None:
        facts["next_step"] = event.next_step
    if event.flag is not None:
        facts["flag"] = event.flag
    return facts


def _traceback(event: AttemptEnded) -> str | None:
    """Of an attempt that failed for good; of every failed one at DEBUG."""
    if event.failure is None or not (_is_bad_end(event.outcome) or logger.isEnabledFor(logging.DEBUG)):
        return None
    return event.failure.traceback


def _milliseconds(length: timedelta) -> int:
    return max(round(length / timedelta(milliseconds=1)), 1)


def _rounded(length: timedelta) -> timedelta:
    return timedelta(milliseconds=max(round(length / timedelta(milliseconds=1)), 1))


def _line(level: int, message: str, **facts: object) -> None:
    say(logger, level, message, **facts)
