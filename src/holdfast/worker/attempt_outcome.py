"""The outcome of an attempt: from what the handler returned or raised, and why it was told to stop."""

import inspect
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any

from holdfast.codec.result import NOTHING_RETURNED
from holdfast.domain.duration import compact
from holdfast.domain.failure import Code, Failure
from holdfast.domain.fingerprint import identified
from holdfast.domain.outcome import (
    ON_REQUEST,
    AttemptOutcome,
    Cancelled,
    Failed,
    Lost,
    Released,
    Snoozed,
    Unreadable,
)
from holdfast.domain.transition import CancelJob, FailJob, RetryJob, SnoozeJob, Transition
from holdfast.errors import DatabaseError, DataRefused, InvalidInput, LeaseLost, TransactionEnded
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.context import Context, claimed_of
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import (
    Cancel,
    CloseLimit,
    EndWith,
    Fail,
    RetryLater,
    Snooze,
    closed_for,
    reason_of,
    retried_after,
    snoozed_for,
)


def outcome_of_result(claimed: ClaimedRun, result: Any) -> tuple[AttemptOutcome, BaseException | None]:
    """A success wins over a cancel request, but not over a timeout, even if the handler blocked the event
    loop so that no timer could stop it.
    """
    if claimed.stop is Stop.TIMEOUT or monotonic() > claimed.overdue_at:
        return _overdue(claimed), TimeoutError("it returned after its timeout")
    return NOTHING_RETURNED if result is None else claimed.kind.signature.encode_result(result), None


def outcome_of_stop(claimed: ClaimedRun, error: BaseException) -> AttemptOutcome:
    match claimed.stop:
        case Stop.TIMEOUT:
            return _overdue(claimed)
        case Stop.CANCEL:
            return Cancelled(Failure(ON_REQUEST, "cancelled"))
        case Stop.SHUTDOWN | Stop.LOST:
            return Released()
        case None:
            # The handler raised it itself, for example from a task of its own that was cancelled.
            return Failed(from_error(error))


def superseded_by(job: int) -> Failure:
    """Why a job ends without being called: a debounced one with the same unique key came after it."""
    return Failure(f"job {job} took over its unique key with newer arguments", "superseded")


def outcome_of_error(claimed: ClaimedRun, error: BaseException) -> AttemptOutcome:
    try:
        requested = _requested(error)
    except InvalidInput as problem:
        return Failed(from_error(problem))
    if requested is not None:
        return requested
    retry = claimed.kind.retry
    try:
        # A backoff that the caller gave when enqueueing goes before the kind's own function.
        is_chosen = claimed.row.backoff is None
        delay = retry.chosen_delay(claimed.row.attempt, error) if is_chosen else None
        # `on` is about the handler's own errors. An outage of Holdfast's database is always retried. So is a
        # run whose transaction it ended: whatever the handler raises then, nothing was written.
        is_retryable = claimed.met_outage or is_outage(error) or retry.is_retryable(error)
    except Exception as worse:  # noqa: BLE001  # a retry policy is the user's code
        worse.__context__ = error
        return Failed(from_error(worse))
    code: Code = getattr(error, "holdfast_code", "handler_error")
    return Failed(from_error(error, code), delay, is_retryable)


def is_outage(error: BaseException) -> bool:
    """Whether a statement of Holdfast met a database in trouble. The attempt counts, since the handler has
    run, but it is retried while attempts are left.
    """
    if isinstance(error, DatabaseError):
        return not isinstance(error, DataRefused)
    return getattr(error, "holdfast_outage", False) is True


def _requested(error: BaseException) -> AttemptOutcome | None:  # noqa: PLR0911  # a return for each request
    match error:
        case EndWith():
            return error.outcome
        case CloseLimit():
            # Later, and not only closed out: the limit may be another one, or removed by now.
            return Snoozed(closed_for(error))
        case Snooze():
            return Snoozed(snoozed_for(error))
        case RetryLater():
            return Failed(from_error(error), retried_after(error))
        case Cancel():
            return Cancelled(Failure(reason_of(error), "cancelled", "Cancel"))
        case Fail():
            return Failed(Failure(reason_of(error), "handler_error", "Fail"), is_retryable=False)
        case LeaseLost():
            return Failed(from_error(error, "lease_lost"))
        case TransactionEnded():
            return Failed(from_error(error), is_retryable=False)
        case _:
            return None


def as_stored(claimed: ClaimedRun, outcome: AttemptOutcome) -> AttemptOutcome:
    """A failure is stored, logged and shown: what it quotes of secret arguments is masked in it, once and for
    all. Only then is it compared with others, so that no secret is in a fingerprint.
    """
    match outcome:
        case Failed() | Unreadable() | Lost():
            failure = outcome.failure.without(secrets_of(claimed))
            return replace(outcome, failure=identified(failure, claimed.row.kind))
        case Cancelled() if outcome.failure:
            return replace(outcome, failure=outcome.failure.without(secrets_of(claimed)))
        case _:
            return outcome


def shown_failure(context: Context, error: BaseException) -> Failure:
    """An error of a handler as others may see it: what it quotes of secret arguments is masked."""
    return from_error(error).without(secrets_of(claimed_of(context)))


def secrets_of(claimed: ClaimedRun) -> tuple[str, ...]:
    """The secret values that the handler of a run is called with, as texts."""
    return claimed.kind.signature.secrets_taken(claimed.row.args)


def has_done_its_work(claimed: ClaimedRun, thread: "Future[Any]") -> bool:
    """Whether a plain function ran to its end although it was cancelled. Nothing can interrupt it, so if it
    never read ctx.is_cancelled it did all its work. If it did read it, it returned for that reason.
    """
    if claimed.kind.style != "thread" or claimed.stop is not Stop.CANCEL or claimed.has_seen_stop:
        return False
    is_over = thread.done() and not thread.cancelled() and thread.exception() is None
    return is_over and not inspect.isawaitable(thread.result())


def failure_and_delay(transition: Transition) -> tuple[Failure | None, timedelta | None]:
    match transition:
        case RetryJob(delay, failure):
            return failure, delay
        case SnoozeJob(delay, failure):
            return failure, delay
        case FailJob(failure) | CancelJob(failure):
            return failure, None
        case _:
            return None, None


def _overdue(claimed: ClaimedRun) -> AttemptOutcome:
    """It ran past its timeout or its job's deadline, whichever was earlier."""
    if claimed.is_past_deadline:
        return Failed(Failure("ran until its deadline", "deadline_expired", "TimeoutError"))
    if claimed.called is None:
        problem = "its child process had not begun to run it in time: see what its module does on import"
        return Failed(Failure(problem, "timeout", "TimeoutError"))
    limit = timedelta(seconds=round(claimed.row.lasting, 3))
    return Failed(Failure(f"took longer than its timeout of {compact(limit)}", "timeout", "TimeoutError"))
