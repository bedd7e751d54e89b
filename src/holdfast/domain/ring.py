"""When the ring of ready segments turns, and which segment is cleared: decided from sizes alone."""

from dataclasses import dataclass
from datetime import timedelta

SEGMENTS = (0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Ring:
    """The ring as read from the database. Sizes are in bytes, dead rows included; a drained segment has no
    other ones.
    """

    version: int
    current: int
    closed: int | None
    age: timedelta
    sizes: tuple[int, ...]
    drained: tuple[bool, ...] = (False, False, False, False)


@dataclass(frozen=True, slots=True)
class Pace:
    """Turn once the current segment is `full` (about 10,000 rows), or not empty and `old`."""

    full: int = 800 * 1024
    old: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Moves:
    """Where new rows go from now on (None: stay), which segments are drained and can be cleared, and which
    one the leader must empty row by row, since the ring is running out of free ones.
    """

    turn_to: int | None
    clear: tuple[int, ...]
    gather: int | None = None


def next_moves(ring: Ring, pace: Pace) -> Moves:
    """A segment behind is left to the claims, which drain it soon; what they leave is gathered only when the
    ring would otherwise stop turning.
    """
    behind = [(ring.current + step) % len(SEGMENTS) for step in range(1, len(SEGMENTS))]
    free = [segment for segment in behind if ring.sizes[segment] == 0 and segment != ring.closed]
    used = [segment for segment in behind if ring.sizes[segment] > 0]
    drained = tuple(segment for segment in used if ring.drained[segment])
    size = ring.sizes[ring.current]
    is_time = size >= pace.full or (size > 0 and ring.age >= pace.old)
    is_short = len(free) + len(drained) <= 1
    left = [segment for segment in used if segment not in drained]
    return Moves(
        turn_to=free[0] if is_time and free else None,
        clear=drained,
        gather=left[0] if is_short and left else None,
    )


def segments_without(closed: int | None) -> tuple[int, ...]:
    """The segments that a claim names: all but the one being truncated."""
    return tuple(segment for segment in SEGMENTS if segment != closed)
