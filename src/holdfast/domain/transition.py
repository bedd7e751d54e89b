"""What happens next to a job whose run has ended: one pure, total function from outcome to transition.

It answers with delays; the database adds them to its clock, and lets a cancel request or a passed deadline
win over going on.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar, Literal, assert_never

from holdfast.domain.backoff import Backoff
from holdfast.domain.duration import LONGEST
from holdfast.domain.failure import Failure
from holdfast.domain.outcome import (
    AttemptOutcome,
    Cancelled,
    Failed,
    Lost,
    Released,
    Snoozed,
    Succeeded,
    Unreadable,
)
from holdfast.domain.states import RunOutcome

UNREADABLE_FOR = timedelta(minutes=10)
_SOONEST = timedelta(seconds=1)
_LATEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Run:
    """What must be known of a run to decide: its attempt (the first is 1) and the job's policy."""

    attempt: int
    max_attempts: int
    backoff: Backoff
    on_lost: Literal["retry", "fail"] = "retry"


@dataclass(frozen=True, slots=True)
class CompleteJob:
    outcome: ClassVar[RunOutcome] = "succeeded"
    result: str | None
    flag: str | None


@dataclass(frozen=True, slots=True)
class RetryJob:
    outcome: ClassVar[RunOutcome] = "retried"
    delay: timedelta
    failure: Failure


@dataclass(frozen=True, slots=True)
class SnoozeJob:
    """Later, with the attempt refunded; `failure` when something kept it from running at all."""

    outcome: ClassVar[RunOutcome] = "snoozed"
    delay: timedelta
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ReleaseJob:
    outcome: ClassVar[RunOutcome] = "released"


@dataclass(frozen=True, slots=True)
class FailJob:
    outcome: ClassVar[RunOutcome] = "failed"
    failure: Failure


@dataclass(frozen=True, slots=True)
class CancelJob:
    outcome: ClassVar[RunOutcome] = "cancelled"
    failure: Failure | None


# Each says which outcome the ledger records, unless a cancel request or a passed deadline wins.
Transition = CompleteJob | RetryJob | SnoozeJob | ReleaseJob | FailJob | CancelJob

SUCCESS = CompleteJob(None, None)
"""A success without a result: what most runs come to."""


def decide(run: Run, outcome: AttemptOutcome, luck: float) -> Transition:  # noqa: PLR0911  # a return for each case
    """The transition that follows. Whether a job is tried again after an attempt, and when, is decided here.

    Runs that end in another way get their transition elsewhere: a claimed job that this worker cannot begin
    (`Attempts._refuse`, `StrayThreads.put_off`, `LeaseKeeper._give_back`), an ending that the database
    refuses as data (`_storable` in `worker/settler.py`), and the commits of flows and machines.

    `run`: the number of this attempt, and the job's own `max_attempts`, `backoff` and `on_lost`, as it was
    enqueued with them. `outcome`: of a handler that returned or raised, made by
    `worker/attempt_outcome.py`; for `Failed` it has asked the kind's `Retry` whether this error is retried
    (`on=`) and for a delay (a backoff that is a function, or `RetryLater`). Of a run that the leader takes
    away, `Lost`, made by `storage/chores.py`. `luck` in [0, 1) spreads retries.

    A step of a flow that has a `Retry` of its own is another matter: `after_failure` of
    `flows/step_runner.py`.
    """
    match outcome:
        case Succeeded(result, flag):
            return CompleteJob(result, flag)
        case Failed(failure) if failure.code == "deadline_expired":
            # The settle statement makes this `expired`, by the database's clock, whatever attempts are left.
            return RetryJob(_SOONEST, failure)
        case Failed(failure, delay, is_retryable):
            return _again(run, failure, delay, luck) if is_retryable else FailJob(failure)
        case Unreadable(failure, lasting):
            # The attempt does not count: it is not the job that failed, but this version of the code.
            is_early = lasting < UNREADABLE_FOR
            return SnoozeJob(_patience(lasting, luck), failure) if is_early else FailJob(failure)
        case Snoozed(delay):
            return SnoozeJob(_bounded(delay))
        case Released():
            return ReleaseJob()
        case Cancelled(failure):
            return CancelJob(failure)
        case Lost(failure):
            if run.on_lost == "fail":
                return FailJob(failure)
            return _again(run, failure, None, luck)
        case _:
            assert_never(outcome)


def _again(run: Run, failure: Failure, delay: timedelta | None, luck: float) -> Transition:
    if run.attempt < run.max_attempts:
        asked = run.backoff.delay(run.attempt, luck) if delay is None else delay
        return RetryJob(_bounded(asked), failure)
    if failure.code in ("lease_lost", "stale_timeout"):
        return FailJob(replace(failure, message=f"{failure.message}; attempts exhausted"))
    return FailJob(failure)


def _patience(lasting: timedelta, luck: float) -> timedelta:
    """How long to wait for a worker whose code can read the job. The job's own backoff is of no use here: no
    attempt is counted, so it would give the delay of the first attempt each time, which may be zero.
    """
    return min(max(lasting / 4 * (0.75 + luck / 2), _SOONEST), _LATEST)


def _bounded(delay: timedelta) -> timedelta:
    return min(max(delay, timedelta()), LONGEST)
