"""What a handler raises to ask for something: later, again, cancelled, failed. Any other exception is a
failed attempt.
"""

import re
from collections.abc import Mapping
from datetime import timedelta

from holdfast.domain.duration import LONGEST, duration
from holdfast.domain.limits import Limit
from holdfast.domain.outcome import AttemptOutcome
from holdfast.errors import InvalidInput

_SECONDS = re.compile(r"\s*\d+(?:\.\d+)?\s*", re.ASCII)
_ENDLESS = float("inf")


class HandlerRequest(Exception):  # not an error
    """The root of what handlers raise on purpose."""


class Snooze(HandlerRequest):
    """Run the job again later; this attempt does not count: `raise Snooze("5m")`."""

    def __init__(self, delay: str | timedelta) -> None:
        self.delay = duration(delay, name="snooze")
        super().__init__(f"snoozed for {self.delay}")


class RetryLater(HandlerRequest):
    """Retry after this delay in place of the policy's; the attempt counts: `raise RetryLater("1h")`."""

    def __init__(
        self, delay: str | timedelta | None = None, reason: str = "the handler asked for a retry"
    ) -> None:
        self.delay = None if delay is None else duration(delay, name="retry")
        self.reason = reason
        super().__init__(reason)


class Cancel(HandlerRequest):
    """End the job as cancelled: there is nothing left to do."""

    def __init__(self, reason: str = "the handler cancelled the job") -> None:
        self.reason = reason
        super().__init__(reason)


class Fail(HandlerRequest):
    """End the job as failed at once, even if attempts are left."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class CloseLimit(HandlerRequest):
    """Let no job of this limit start for a while, such as after a 429, and run this one again afterwards;
    this attempt does not count: `raise CloseLimit(stripe, key="acme", retry_after="30s")`. Without a key:
    this job's own, of a limit that has keys. A bare number means seconds here, also as text: so does that of
    the header Retry-After.
    """

    def __init__(
        self, limit: Limit | str, *, retry_after: str | float | timedelta, key: str | None = None
    ) -> None:
        self.limit = limit if isinstance(limit, str) else limit.name
        self.key = key
        self.retry_after = _seconds_or_length(retry_after)
        super().__init__(f'limit "{self.limit}" is closed for {self.retry_after}')


class BatchFailed(HandlerRequest):
    """Some jobs of a batch fail, each with its error, and the others succeed:
    `raise BatchFailed({3: error})`, by places in the handler's list.
    """

    def __init__(self, errors: Mapping[int, BaseException]) -> None:
        _check_errors(errors)
        self.errors = dict(errors)
        place, error = next(iter(self.errors.items()))
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        super().__init__(f"failed at {place} with {type(error).__name__}: {_text(error)}{more}")


class EndWith(HandlerRequest):
    """For Holdfast's own callers: end the attempt with this outcome, whatever the kind's policy says."""

    def __init__(self, outcome: AttemptOutcome) -> None:
        self.outcome = outcome
        super().__init__(f"came to {outcome}")


def _seconds_or_length(given: object) -> timedelta:
    seconds: object = given
    if isinstance(given, str):
        if not _SECONDS.fullmatch(given):
            return duration(given, name="retry_after")
        seconds = float(given)
    if isinstance(seconds, timedelta):
        return seconds
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < _ENDLESS:
        raise InvalidInput(
            f"retry_after is {given!r}: give the seconds of a Retry-After header, such as 30, a length of "
            'time such as "30s", or a timedelta'
        )
    return timedelta(seconds=min(seconds, LONGEST.total_seconds()))


def _check_errors(errors: object) -> None:
    if not isinstance(errors, Mapping) or not errors:
        raise InvalidInput(
            f"BatchFailed({errors!r}): give a dict that has an exception for each job that failed, by its "
            "place in the handler's list"
        )
    for place, error in errors.items():
        if not isinstance(error, BaseException):
            raise InvalidInput(f"BatchFailed has {error!r} at {place!r}: give an exception")


def error_behind(error: BaseException) -> BaseException:
    """What hooks and logs are told: not our own `EndWith`, but the error that it was raised from."""
    return error.__cause__ if isinstance(error, EndWith) and error.__cause__ is not None else error


# A subclass of the user's may not call our `__init__`, so any of these attributes may be missing.


def snoozed_for(request: Snooze) -> timedelta:
    return _bounded(duration(getattr(request, "delay", None), name=f"the delay of {type(request).__name__}"))


def closed_for(request: CloseLimit) -> timedelta:
    length = getattr(request, "retry_after", None)
    return _bounded(duration(length, name=f"retry_after of {type(request).__name__}"))


def retried_after(request: RetryLater) -> timedelta | None:
    delay = getattr(request, "delay", None)
    return None if delay is None else _bounded(duration(delay, name=f"the delay of {type(request).__name__}"))


def reason_of(request: Cancel | Fail | RetryLater) -> str:
    """As text, whatever was given: often an error is passed as the reason."""
    reason: object = getattr(request, "reason", request)
    if isinstance(reason, str):
        return reason
    if not isinstance(reason, BaseException):
        return _text(reason)
    return _text(reason) if reason is request else f"{type(reason).__name__}: {_text(reason)}"


def _text(reason: object) -> str:
    try:
        return str(reason)
    except Exception:  # noqa: BLE001  # a user's __str__ may do anything
        return f"({type(reason).__name__} could not be shown)"


def _bounded(delay: timedelta) -> timedelta:
    return min(max(delay, timedelta()), LONGEST)
