"""How a run leaves a flow's function before its end: suspended to wait, or interrupted by an outage.

These are not errors: user code that catches every Exception must not stop them.
"""

from datetime import timedelta

from holdfast.domain.failure import Failure
from holdfast.domain.outcome import Released
from holdfast.domain.states import RunOutcome
from holdfast.errors import ServerUnable
from holdfast.worker.handler_requests import EndWith, HandlerRequest, Snooze

_PAUSE = timedelta(seconds=2)


class Suspended(BaseException):
    """The run waits, and its lease is gone. `is_settled` is False when it is to end instead: it was
    cancelled, or its deadline has passed. `waiting` says for what, and `failure` what is to be tried again.
    """

    def __init__(
        self,
        *,
        is_settled: bool,
        outcome: RunOutcome = "snoozed",
        waiting: str | None = None,
        failure: Failure | None = None,
    ) -> None:
        self.is_settled, self.outcome = is_settled, outcome
        self.waiting, self.failure = waiting, failure
        super().__init__("the flow waits: let this pass")


class Interrupted(BaseException):
    """The database could not be reached. The next run finds out whether the last write was committed."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(f"the flow was interrupted: {error}")

    @property
    def request(self) -> HandlerRequest:
        """Go on at once after a lost connection; after a pause when the server refused, since it may refuse
        again. No attempt is counted.
        """
        return Snooze(_PAUSE) if isinstance(self.error, ServerUnable) else EndWith(Released())


def follows(error: BaseException | None, end: BaseException) -> bool:
    """Whether this error is the end, or was raised while the end was on its way out."""
    while error is not None:
        if error is end or end_in(error) is end:
            return True
        error = error.__context__
    return False


def end_in(error: BaseException) -> Suspended | Interrupted | None:
    """The end inside this error, also when the user's TaskGroup has wrapped it."""
    if isinstance(error, (Suspended, Interrupted)):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((end for inner in error.exceptions if (end := end_in(inner))), None)
    return None
