"""Retry policies: how many attempts a job has, the backoff between them, and which errors are retried."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdfast.domain.backoff import DEFAULT, STEEPEST, Backoff, Exponential, Fixed, Listed, Polynomial
from holdfast.domain.duration import Length, duration
from holdfast.domain.job import check_attempts
from holdfast.errors import InvalidInput

Chooser = Callable[[int, BaseException], Length]
Matcher = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]


@dataclass(frozen=True, slots=True)
class Retry:
    """`Retry(max_attempts=5, backoff="10s", on=ConnectionError)`.

    `backoff` is one length ("10s"), several in turn (["1s", "10s", "1m"]), `exponential(…)`,
    `polynomial(…)`, or a function of the attempt and the error. `on` names the errors that are retried, or
    decides by a function; all others fail at once, except an outage of the database that Holdfast itself met.
    `max_attempts` includes the first.
    """

    max_attempts: int = 20
    backoff: Backoff | Length | Sequence[Length] | Chooser = DEFAULT
    on: Matcher | None = None

    def __post_init__(self) -> None:
        check_attempts(self.max_attempts)
        _stored(self.backoff)
        check_matcher(self.on)

    @property
    def stored(self) -> Backoff:
        """As numbers, for the leader that rescues the job. In place of a function, which only the worker has,
        the default.
        """
        return _stored(self.backoff)

    @property
    def is_stored_whole(self) -> bool:
        """Whether a job can carry all of it: `on` and a function are known only to the code of its kind."""
        return self.on is None and not callable(self.backoff)

    def chosen_delay(self, attempt: int, error: BaseException) -> timedelta | None:
        """What a function chooses; None leaves it to the stored numbers."""
        if not callable(self.backoff):
            return None
        return duration(self.backoff(attempt, error), name="backoff")

    def is_retryable(self, error: BaseException) -> bool:
        return matches(self.on, error)


def exponential(
    base: Length = "2s", *, factor: float = 2.0, cap: Length = "24h", jitter: float = 0.25
) -> Exponential:
    """`base`, `base * factor`, … up to `cap`, each up to `jitter` longer or shorter."""
    policy = Exponential(
        duration(base, name="base"),
        _number("factor", factor),
        duration(cap, name="cap"),
        _number("jitter", jitter),
    )
    if policy.base <= timedelta() or policy.cap < policy.base or policy.factor < 1:
        raise InvalidInput(
            "an exponential backoff needs a base above 0, a cap not below it, a factor of 1 or more"
        )
    if not 0 <= policy.jitter <= 1:
        raise InvalidInput(f"jitter is {jitter!r}: give 0 (none) to 1")
    return policy


def polynomial(power: float = 4.0, *, floor: Length = "16s", spread: Length = "30s") -> Polynomial:
    """`n ** power` seconds after the n-th failure, plus `floor`, plus up to `n * spread` at random."""
    policy = Polynomial(
        _number("power", power), _not_negative(floor, "floor"), _not_negative(spread, "spread")
    )
    if not 0 <= policy.power <= STEEPEST:
        raise InvalidInput(f"power is {power!r}: give a number from 0 to {STEEPEST:g}")
    return policy


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidInput(f"{what} is {value!r}: give a number")
    return float(value)


def matches(on: Matcher | None, error: BaseException) -> bool:
    """Whether it is one of these errors; None: every one is."""
    if on is None:
        return True
    if isinstance(on, (type, tuple)):
        return isinstance(error, on)
    return bool(on(error))


def check_matcher(on: object) -> None:
    """A class that is not an exception matches nothing; you would notice only when a job is not retried."""
    kinds = on if isinstance(on, tuple) else (on,) if isinstance(on, type) else ()
    is_sound = all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds)
    if on is None or (is_sound and (kinds or callable(on))):
        return
    raise InvalidInput(f"on is {on!r}: give an exception class, a tuple of them, or a function of the error")


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
                "polynomial(…), or a function of the attempt and the error"
            )


def _not_negative(length: object, name: str = "backoff") -> timedelta:
    read = duration(length, name=name)
    if read < timedelta():
        raise InvalidInput(f"{name} {length!r} is negative")
    return read
