"""How a run ended, as its worker or the leader saw it. `transition.decide` says what follows from it."""

from dataclasses import dataclass
from datetime import timedelta

from holdfast.domain.failure import Failure

ON_REQUEST = "cancelled on request"
"""Why a job was cancelled, if its caller or operator gave no reason."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned. `result` is JSON text; `flag` says why it is missing."""

    result: str | None = None
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed: the handler raised, took too long, or its process died.

    `delay` is what the handler asked for itself; `is_retryable` what its policy says of this error.
    """

    failure: Failure
    delay: timedelta | None = None
    is_retryable: bool = True


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The stored arguments do not fit this version of the code; another version may know them. `lasting`: how
    long ago a worker first found that out.
    """

    failure: Failure
    lasting: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler asked to go on later; the attempt does not count."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class Released:
    """The worker stops, or never began: the attempt does not count."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler stopped because a caller or an operator cancelled the job, or because it raised Cancel."""

    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker was marked lost, or the run outlived its timeout unsettled."""

    failure: Failure


AttemptOutcome = Succeeded | Failed | Unreadable | Snoozed | Released | Cancelled | Lost
