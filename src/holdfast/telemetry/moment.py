"""When a line was logged, as its text says it."""

from datetime import UTC, datetime
from functools import lru_cache
from math import modf

_MICROSECONDS = 1_000_000


def moment(created: float) -> str:
    """`2026-01-31T09:00:00.042+00:00`. A busy worker writes thousands of lines in a second: all of them share
    what is made for that second.
    """
    fraction, whole = modf(created)
    second, microsecond = int(whole), round(fraction * _MICROSECONDS)
    if microsecond == _MICROSECONDS:
        second, microsecond = second + 1, 0
    return f"{_to_the_second(second)}.{microsecond // 1_000:03d}+00:00"


@lru_cache(maxsize=8)
def _to_the_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat(timespec="seconds")
