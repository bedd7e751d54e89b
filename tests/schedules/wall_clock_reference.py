"""A slow reference for time zones: a wall clock, read moment by moment.

Nothing of it is shared with the code that it judges: fields are sets of numbers, and time only goes forward.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import gcd
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Fields:
    """Minutes and hours of any day; written as cron and asked for a reading."""

    minutes: frozenset[int]
    hours: frozenset[int]

    def __str__(self) -> str:
        every_hour = "*" if self.is_pace else _listed(self.hours)
        return f"{_listed(self.minutes)} {every_hour} * * *"

    @property
    def is_pace(self) -> bool:
        return len(self.hours) == 24

    def match(self, reading: datetime) -> bool:
        return (
            not (reading.second or reading.microsecond)
            and reading.minute in self.minutes
            and reading.hour in self.hours
        )


def watched(fields: Fields, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    """The plan times later than `after` and up to `until`."""
    return list(_paced(fields, zone, after, until) if fields.is_pace else _once(fields, zone, after, until))


def _paced(fields: Fields, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    for moment in _moments(zone, after, until):
        if fields.match(_reading(moment, zone)):
            yield moment


def _once(fields: Fields, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """Each time of the day when the clock shows it, or has just gone past it without showing it."""
    furthest = _reading(after, zone)
    for moment in _moments(zone, after, until):
        reading = _reading(moment, zone)
        if reading <= furthest:
            continue
        if any(fields.match(shown) for shown in _minutes(furthest, reading)):
            yield moment
        furthest = reading


def _moments(zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[datetime]:
    """In steps that meet every whole minute of the clock, also where offsets have odd seconds."""
    step = MINUTE
    for moment in (after, until):
        seconds = int(moment.astimezone(zone).utcoffset().total_seconds())  # type: ignore[union-attr]  # aware
        step = timedelta(seconds=gcd(int(step.total_seconds()), abs(seconds) % 60, moment.second))
    moment = after + step
    while moment <= until:
        yield moment
        moment += step


def _minutes(after: datetime, until: datetime) -> Iterator[datetime]:
    reading = after.replace(second=0) + MINUTE
    while reading <= until:
        yield reading
        reading += MINUTE


def _reading(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _listed(numbers: frozenset[int]) -> str:
    return ",".join(map(str, sorted(numbers)))
