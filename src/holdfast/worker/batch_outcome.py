"""What each job of a batch has come to: from what the handler returned or raised for all of them."""

import asyncio
from typing import Any

from holdfast.codec.result import NotBrought
from holdfast.domain.outcome import AttemptOutcome, Released
from holdfast.errors import InvalidInput, LeaseLost
from holdfast.worker.attempt_outcome import outcome_of_error, outcome_of_result, outcome_of_stop
from holdfast.worker.batch_run import BatchMember, BatchRun, check_places
from holdfast.worker.claimed_run import Stop
from holdfast.worker.current_run import log_of
from holdfast.worker.handler_requests import BatchFailed, EndWith, HandlerRequest, error_behind

_ON_REQUEST = (Stop.TIMEOUT, Stop.CANCEL)


def checked(batch: BatchRun, error: BaseException) -> BaseException:
    """What the handler raised; if that names jobs which are not in the batch, the error that says so."""
    if isinstance(error, BatchFailed):
        try:
            check_places(tuple(error.errors), len(batch.members), "BatchFailed")
        except InvalidInput as problem:
            problem.__context__ = error
            return problem
    return error


def error_at(batch: BatchRun, place: int, error: BaseException | None) -> BaseException | None:
    """What the job at this place met, of what the handler raised; None: it has succeeded."""
    if place in batch.ends:
        return batch.ends[place]
    if place in batch.failures:
        return batch.failures[place]
    match error:
        case BatchFailed() if place in error.errors:
            return error.errors[place]
        case BatchFailed() if error is not batch.left_block:
            return None
        case BatchFailed() | LeaseLost():
            # Not by its own fault: what was written for it was rolled back with the others.
            return _released(error)
        case _:
            return error


def outcome_at(
    batch: BatchRun, place: int, value: Any, error: BaseException | None
) -> tuple[AttemptOutcome, BaseException | None]:
    """The outcome of the run at this place, and the error that hooks and logs are told."""
    member, own = batch.members[place], error_at(batch, place, error)
    if own is None:
        if member.is_left_out:
            return outcome_of_stop(member, asyncio.CancelledError()), None
        return outcome_of_result(member, value)
    if isinstance(own, asyncio.CancelledError):
        return outcome_of_stop(member, own), own
    is_stopped = member.stop in _ON_REQUEST and not isinstance(own, HandlerRequest)
    judge = outcome_of_stop if is_stopped else outcome_of_error
    return judge(member, own), error_behind(own)


def results_of(batch: BatchRun, result: Any) -> list[Any]:
    """One for each job. The work is done: what does not fit is dropped, and no job is run again for it."""
    number = len(batch.members)
    if result is None:
        return [None] * number
    if isinstance(result, list) and len(result) == number:
        return result
    what = f"{len(result)} results" if isinstance(result, list) else type(result).__name__
    log_of(batch).warning(
        "the results are dropped: the handler returned %s for %d jobs, and not a list of as many",
        what,
        number,
    )
    return [NotBrought("result_unencodable")] * number


def _released(error: BaseException) -> EndWith:
    ending = EndWith(Released())
    ending.__cause__ = error
    return ending


def is_done_all_the_same(member: BatchMember) -> bool:
    """Whether a plain function that has returned did the work of a job that was cancelled meanwhile."""
    return member.stop is Stop.CANCEL and not member.has_seen_stop
