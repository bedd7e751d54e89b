"""Where clocks jump: transitions of every IANA zone, found by looking, not by reading what Python reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
FIRST_YEAR, LAST_YEAR = 1970, 2037
# Names of what a machine is set to, not of a place.
NO_PLACES = {"localtime", "posixrules"}
ZONES = sorted(available_timezones() - NO_PLACES)


@dataclass(frozen=True)
class Transition:
    zone: str
    moment: datetime
    change: timedelta

    def __str__(self) -> str:
        return f"{self.zone} {self.moment:%Y-%m-%d %H:%M:%S}Z {self.change.total_seconds():+.0f}s"


def transitions(name: str, year: int) -> Iterator[Transition]:
    zone = ZoneInfo(name)
    moment, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    offset = _offset(moment, zone)
    while moment < end:
        later = moment + DAY
        if _offset(later, zone) != offset:
            exact = _exact(moment, later, zone)
            change = _offset(exact, zone) - offset
            if change:
                yield Transition(name, exact, change)
            offset = _offset(later, zone)
        moment = later


def _exact(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    offset = _offset(low, zone)
    while high - low > SECOND:
        middle = low + (high - low) // 2 // SECOND * SECOND
        low, high = (middle, high) if _offset(middle, zone) == offset else (low, middle)
    return high


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset
