"""What a handler may ask for by raising. Anything else that it raises is a failed attempt."""

from datetime import timedelta

from holdfast.domain.duration import duration
from holdfast.domain.outcome import Outcome


class Ask(Exception):  # not an error: a wish
    """The root of what handlers raise on purpose."""


class Snooze(Ask):
    """Go on later; this attempt does not count: `raise Snooze("5m")`."""

    def __init__(self, delay: str | timedelta) -> None:
        self.delay = duration(delay, name="snooze")
        super().__init__(f"snoozed for {self.delay}")


class RetryLater(Ask):
    """Try again, counted as an attempt, after this delay and not the policy's: `raise RetryLater("1h")`."""

    def __init__(
        self, delay: str | timedelta | None = None, reason: str = "the handler asked for a retry"
    ) -> None:
        self.delay = None if delay is None else duration(delay, name="retry")
        self.reason = reason
        super().__init__(reason)


class Cancel(Ask):
    """End the job as cancelled: there is nothing to do any more."""

    def __init__(self, reason: str = "the handler cancelled the job") -> None:
        self.reason = reason
        super().__init__(reason)


class Fail(Ask):
    """End the job as failed at once, whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class CameTo(Ask):
    """For callers, who know better than the kind's policy what a run came to."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(f"came to {outcome}")
