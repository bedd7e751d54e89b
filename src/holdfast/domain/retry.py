"""How often a job is tried, how long is waited in between, and which errors are worth another try."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.domain.backoff import DEFAULT, Backoff, Exponential, Fixed, Listed, Polynomial
from holdfast.domain.duration import duration
from holdfast.domain.job import check_attempts
from holdfast.errors import InvalidInput

Length = str | timedelta
Chooser = Callable[[int, BaseException], Length]
Matcher = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]


@dataclass(frozen=True, slots=True)
class Retry:
    """`Retry(max_attempts=5, backoff="10s", on=ConnectionError)`.

    `backoff` is one length ("10s"), several in turn (["1s", "10s", "1m"]), `exponential(…)`, or a function
    of the attempt and the error. `on` names the errors that are tried again, or decides by a function; all
    others fail at once. `max_attempts` includes the first.
    """

    max_attempts: int = 20
    backoff: Backoff | Length | Sequence[Length] | Chooser = DEFAULT
    on: Matcher | None = None

    def __post_init__(self) -> None:
        check_attempts(self.max_attempts)
        _stored(self.backoff)
        if self.on is not None and not isinstance(self.on, tuple) and not callable(self.on):
            raise InvalidInput(f"on is {self.on!r}: give an exception class, several, or a function")

    @property
    def stored(self) -> Backoff:
        """As numbers, for whoever rescues the job; a function is known only to the worker, so the default."""
        return _stored(self.backoff)

    def chosen_delay(self, attempt: int, error: BaseException) -> timedelta | None:
        """What a function chooses; None leaves it to the stored numbers."""
        if isinstance(self.backoff, (Exponential, Fixed, Listed, Polynomial)) or not callable(self.backoff):
            return None
        return duration(self.backoff(attempt, error), name="backoff")

    def is_retryable(self, error: BaseException) -> bool:
        if self.on is None:
            return True
        if isinstance(self.on, (type, tuple)):
            return isinstance(error, self.on)
        return bool(self.on(error))


def exponential(
    base: Length = "2s", *, factor: float = 2.0, cap: Length = "24h", jitter: float = 0.25
) -> Exponential:
    """`base`, `base * factor`, … up to `cap`, each up to `jitter` longer or shorter."""
    policy = Exponential(duration(base, name="base"), float(factor), duration(cap, name="cap"), float(jitter))
    if policy.base <= timedelta() or policy.cap < policy.base or policy.factor < 1:
        raise InvalidInput(
            "an exponential backoff needs a base above 0, a cap not below it, a factor of 1 or more"
        )
    if not 0 <= policy.jitter <= 1:
        raise InvalidInput(f"jitter is {jitter!r}: give 0 (none) to 1")
    return policy


def _stored(backoff: object) -> Backoff:
    match backoff:
        case Exponential() | Fixed() | Listed() | Polynomial():
            return backoff
        case str() | timedelta():
            return Fixed(_not_negative(backoff))
        case [_, *_] as lengths:
            return Listed(tuple(map(_not_negative, lengths)))
        case _ if callable(backoff):
            return DEFAULT
        case _:
            raise InvalidInput(
                f'backoff is {backoff!r}: give a length such as "10s", a list of them, exponential(…), '
                "or a function of the attempt and the error"
            )


def _not_negative(length: object) -> timedelta:
    read = duration(length, name="backoff")
    if read < timedelta():
        raise InvalidInput(f"backoff {length!r} is negative")
    return read
