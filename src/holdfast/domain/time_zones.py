"""Time zones: looked up by their IANA name, and how clocks on the wall jump in them.

A reading is what such a clock shows: a datetime without a zone. Twice a year or so readings are left out (a
gap) or come again (a fold); Python marks the second coming with `fold=1`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from holdfast.errors import InvalidInput

_SECOND = timedelta(seconds=1)
# The zone that a host is set to: the same schedule would mean another time on every node.
_HOST_ZONES = frozenset({"localtime", "posixrules"})


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """The zone, or an error that offers the names that come near."""
    try:
        return ZoneInfo(name if name not in _HOST_ZONES else "")
    except (KeyError, ValueError, OSError):  # an OSError when the name is a directory, such as "Europe"
        raise InvalidInput(_unknown(name)) from None


def _unknown(name: str) -> str:
    known = {zone.lower(): zone for zone in available_timezones() - _HOST_ZONES}
    cities = {zone.rpartition("/")[2].lower(): zone for zone in sorted(known.values())}
    near = get_close_matches(name.lower(), [*known, *cities], n=1, cutoff=0.75)
    hint = f', such as "{(known | cities)[near[0]]}"' if near else ', such as "Europe/Oslo" or "UTC"'
    return f"time zone {name!r} is not known: give an IANA name{hint}"


@dataclass(frozen=True, slots=True)
class Jump:
    """A change of offset at `moment`: clocks were about to show `before`, and show `after` instead."""

    moment: datetime
    before: datetime
    after: datetime

    @property
    def is_gap(self) -> bool:
        return self.after > self.before


def reading_at(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the clock shows; `fold` tells whether it shows it for the second time."""
    return moment.astimezone(zone).replace(tzinfo=None)


def first_moment(reading: datetime, zone: ZoneInfo) -> datetime:
    """When the clock shows it, the first time that it does; one in a gap by the offset before the gap."""
    return reading.replace(tzinfo=zone, fold=0).astimezone(UTC)


def second_moment(reading: datetime, zone: ZoneInfo) -> datetime:
    """When the clock shows it, the last time that it does."""
    return reading.replace(tzinfo=zone, fold=1).astimezone(UTC)


def jump_at(reading: datetime, zone: ZoneInfo) -> Jump | None:
    """The jump that leaves this reading out or brings it again; None for an ordinary reading."""
    early, late = sorted((first_moment(reading, zone), second_moment(reading, zone)))
    if early == late:
        return None
    # The offset changes once between the two, on a whole second.
    offset = early.astimezone(zone).utcoffset()
    low, high = early.replace(microsecond=0), late.replace(microsecond=0) + _SECOND
    while high - low > _SECOND:
        middle = low + (high - low) // 2 // _SECOND * _SECOND
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return Jump(high, reading_at(low, zone) + _SECOND, reading_at(high, zone))
