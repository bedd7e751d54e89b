"""How long to wait before a retry, decided from the number of failures and a random number.

A policy is stored with its job as numbers, so that a leader that rescues the job needs no code of its kind.
"""

import json
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_never

_LONGEST = timedelta(days=365)
STEEPEST = 10.0
"""The highest power of a polynomial backoff."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """`base`, `base * factor`, `base * factor²`, … up to `cap`, each up to `jitter` longer or shorter."""

    base: timedelta
    factor: float = 2.0
    cap: timedelta = timedelta(hours=24)
    jitter: float = 0.25

    def delay(self, failures: int, luck: float) -> timedelta:
        """The wait after the n-th failure in a row; `luck` in [0, 1) is drawn by the caller."""
        steps = min(max(failures, 1) - 1, 64)
        cap = min(self.cap, _LONGEST)
        growth = min(_power(self.factor, steps), cap / self.base)
        return min(self.base * growth * (1 + self.jitter * (2 * luck - 1)), cap)


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same length every time."""

    length: timedelta

    def delay(self, failures: int, luck: float) -> timedelta:  # noqa: ARG002  # the shape all policies share
        return self.length


@dataclass(frozen=True, slots=True)
class Listed:
    """One length after another; the last one for all that follow."""

    lengths: tuple[timedelta, ...]

    def delay(self, failures: int, luck: float) -> timedelta:  # noqa: ARG002  # the shape all policies share
        return self.lengths[min(max(failures, 1), len(self.lengths)) - 1]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """`n ** power + floor + n * luck * spread` seconds: slow to grow, widely spread."""

    power: float = 4.0
    floor: timedelta = timedelta(seconds=16)
    spread: timedelta = timedelta(seconds=30)

    def delay(self, failures: int, luck: float) -> timedelta:
        n = min(max(failures, 1), 10_000)
        grown = timedelta(seconds=min(_power(n, self.power), _LONGEST.total_seconds()))
        return min(grown + self.floor + n * luck * self.spread, _LONGEST)


Backoff = Exponential | Fixed | Listed | Polynomial

DEFAULT = Exponential(timedelta(seconds=2))


def _power(base: float, exponent: float) -> float:
    """Never raises: what is too large for a float is larger than any cap."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def to_json(backoff: Backoff) -> str | None:
    """As stored with a job; the default is stored as nothing, which costs nothing."""
    if backoff == DEFAULT:
        return None
    match backoff:
        case Exponential(base, factor, cap, jitter):
            numbers = [base.total_seconds(), factor, cap.total_seconds(), jitter]
            return json.dumps({"exponential": numbers})
        case Fixed(length):
            return json.dumps({"fixed": length.total_seconds()})
        case Listed(lengths):
            return json.dumps({"list": [length.total_seconds() for length in lengths]})
        case Polynomial(power, floor, spread):
            return json.dumps({"polynomial": [power, floor.total_seconds(), spread.total_seconds()]})
        case _:
            assert_never(backoff)


def from_json(text: str | None) -> Backoff:
    """The stored policy. A row that was written by hand and cannot be read gets the default, so that rescue
    never stops at one bad row.
    """
    if text is None:
        return DEFAULT
    try:
        return _read(json.loads(text))
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, ZeroDivisionError, RecursionError):
        return DEFAULT


def _read(stored: Any) -> Backoff:
    match stored:
        case {"exponential": [base, factor, cap, jitter]}:
            policy = Exponential(_seconds(base), float(factor), _seconds(cap), float(jitter))
            is_sound = policy.base > timedelta() and policy.factor >= 1 and 0 <= policy.jitter <= 1
            return policy if is_sound else DEFAULT
        case {"fixed": length}:
            return Fixed(_seconds(length))
        case {"list": [_, *_] as lengths}:
            return Listed(tuple(map(_seconds, lengths)))
        case {"polynomial": [power, floor, spread]}:
            steep = min(max(float(power), 0.0), STEEPEST)
            return DEFAULT if math.isnan(steep) else Polynomial(steep, _seconds(floor), _seconds(spread))
        case _:
            return DEFAULT


def _seconds(number: float) -> timedelta:
    return min(max(timedelta(seconds=float(number)), timedelta()), _LONGEST)
