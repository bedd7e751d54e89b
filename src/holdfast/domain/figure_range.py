"""Which range of time is asked for, in which pieces, and what of it can be answered at a bounded cost."""

from dataclasses import dataclass
from datetime import timedelta

from holdfast.domain.duration import Length, compact, duration
from holdfast.domain.retention import HOURS
from holdfast.errors import InvalidInput

MOST_POINTS = 1_500
LONGEST_IN_MINUTES = timedelta(hours=24)
"""Ranges that are longer are read from hours."""

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
# Up to which range, which resolution. A day of minutes takes ten times as long to read as one of hours.
_USUAL = (
    (timedelta(hours=3), _MINUTE),
    (timedelta(hours=6), timedelta(minutes=10)),
    (timedelta(days=14), _HOUR),
)


@dataclass(frozen=True, slots=True)
class FigureRange:
    since: timedelta
    resolution: timedelta


def figure_range(since: Length, resolution: Length | None) -> FigureRange:
    """Checked. Without a resolution, one that gives up to 340 points."""
    length = duration(since, name="since")
    if not _MINUTE <= length <= HOURS:
        raise InvalidInput(f"since is {compact(length)}: give a length from 1m to {compact(HOURS)}")
    if resolution is None:
        return FigureRange(length, next((step for most, step in _USUAL if length <= most), _DAY))
    step = duration(resolution, name="resolution")
    _check(length, step)
    return FigureRange(length, step)


def _check(length: timedelta, step: timedelta) -> None:
    if step < _MINUTE or step % (_MINUTE if step < _HOUR else _HOUR):
        raise InvalidInput(
            f"resolution is {compact(step)}: give whole minutes, or whole hours from an hour on"
        )
    if step < _HOUR and length > LONGEST_IN_MINUTES:
        raise InvalidInput(
            f"resolution is {compact(step)} over {compact(length)}: minutes are for up to "
            f"{compact(LONGEST_IN_MINUTES)}, so give a resolution of 1h or more"
        )
    if length / step > MOST_POINTS:
        raise InvalidInput(
            f"resolution is {compact(step)} over {compact(length)}: that is more than {MOST_POINTS:,} "
            "points, so give a coarser resolution"
        )
