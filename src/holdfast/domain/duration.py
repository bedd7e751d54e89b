"""Lengths of time as people write them: "5m", "1h 30m", "250ms", or a timedelta. Never a bare number."""

import re
from datetime import timedelta

from holdfast.errors import InvalidInput

Length = str | timedelta
"""A length of time as callers give it: "5m", or a timedelta."""

# A hundred years. Added to the clock, more than that could leave the range of a timestamp: often not in the
# statement that stores it but in a later one, which then fails for every job beside it.
LONGEST = timedelta(days=36_525)

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_WORDS = {
    "millisecond": "ms",
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.ASCII)


def duration(value: object, *, name: str = "duration") -> timedelta:
    """Read a length of time. `name` is what the error calls it."""
    match value:
        case timedelta():
            return value
        case str():
            return _parse(value, name)
        case _:
            raise InvalidInput(
                f'{name} is {value!r}: write a length of time with its unit, such as "5m" or "1h 30m", '
                "or give a timedelta"
            )


def _parse(text: str, name: str) -> timedelta:
    total, end, lowered = timedelta(), 0, text.lower()
    while end < len(lowered):
        part = _PART.match(lowered, end)
        unit = _unit(part[2]) if part else None
        if part is None or unit is None:
            break
        try:
            total += float(part[1]) * unit
        except OverflowError:
            raise InvalidInput(
                f"{name} {text!r} is longer than the longest time that can be stored"
            ) from None
        end = part.end()
    if end == 0 or end < len(lowered):
        raise InvalidInput(
            f"{name} {text!r} is not a length of time: write numbers with units "
            f'({", ".join(_UNITS)}), such as "5m" or "1h 30m"'
        )
    return total


def _unit(word: str) -> timedelta | None:
    return _UNITS.get(word) or _UNITS.get(_WORDS.get(word.removesuffix("s"), ""))


def compact(length: timedelta) -> str:
    """The other way round: `1h 30m`, the shortest exact writing down to the millisecond."""
    milliseconds, rest = divmod(abs(length), timedelta(milliseconds=1))
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, milliseconds = divmod(milliseconds, _UNITS[unit] // timedelta(milliseconds=1))
        if count:
            parts.append(f"{count}{unit}")
    sign = "-" if length < timedelta() else ""
    return sign + (" ".join(parts) or ("0s" if not rest else "<1ms"))
