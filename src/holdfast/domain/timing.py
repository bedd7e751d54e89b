"""When a schedule plans: at the times of a cron expression in a time zone, at an interval, or once."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_never

from holdfast.domain import cron_moments
from holdfast.domain.cron import Expression, read_expression
from holdfast.domain.duration import LONGEST, compact, duration
from holdfast.domain.job import check_time
from holdfast.domain.time_zones import zone_named
from holdfast.errors import InvalidInput

# Plan times of an interval are counted from here. It is a Monday, so weeks begin on Mondays.
_ORIGIN = datetime.min.replace(tzinfo=UTC)
SHORTEST_INTERVAL = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Cron:
    """`Cron("0 9 * * mon-fri", "Europe/Oslo")`: 5 fields, 6 with seconds first, or one such as @daily."""

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidInput(f'cron is {self.expression!r}: give text such as "0 9 * * mon-fri"')
        if not isinstance(self.zone, str):
            raise InvalidInput(
                f'time zone {self.zone!r} must be the text of an IANA name, such as "Europe/Oslo"'
            )
        read_expression(self.expression)
        zone_named(self.zone)

    @property
    def _read(self) -> Expression:
        return read_expression(self.expression)

    @property
    def described(self) -> str:
        return f"{_uncapitalised(self._read.described)}, {self.zone}"

    def first_after(self, moment: datetime) -> datetime | None:
        return cron_moments.first_after(self._read, zone_named(self.zone), moment)

    def latest(self, until: datetime, after: datetime) -> datetime | None:
        found = cron_moments.latest_until(self._read, zone_named(self.zone), until)
        return found if found is not None and found > after else None

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        return list(cron_moments.between(self._read, zone_named(self.zone), after, until, limit))

    def count(self, after: datetime, until: datetime, limit: int) -> int:
        return len(cron_moments.between(self._read, zone_named(self.zone), after, until, limit))


@dataclass(frozen=True, slots=True)
class Every:
    """`Every(timedelta(minutes=15))`: at whole multiples of the interval in UTC, whenever it was begun."""

    interval: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.interval, timedelta):
            raise InvalidInput(f'every is {self.interval!r}: give a length of time, such as "15m"')
        if self.interval <= timedelta():
            raise InvalidInput(f'every is {compact(self.interval)}: give an interval above 0, such as "15m"')
        if not SHORTEST_INTERVAL <= self.interval <= LONGEST:
            raise InvalidInput(
                f"every is {compact(self.interval)}: give {compact(SHORTEST_INTERVAL)} to {compact(LONGEST)}"
            )

    @property
    def described(self) -> str:
        return f"every {compact(self.interval)}"

    def first_after(self, moment: datetime) -> datetime | None:
        try:
            return self._floor(moment) + self.interval
        except OverflowError:
            return None

    def latest(self, until: datetime, after: datetime) -> datetime | None:
        found = self._floor(until)
        return found if found > after else None

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        first = self._floor(after) + self.interval
        return [first + n * self.interval for n in range(self.count(after, until, limit))]

    def count(self, after: datetime, until: datetime, limit: int) -> int:
        return min(max((self._floor(until) - self._floor(after)) // self.interval, 0), limit)

    def _floor(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC) - (moment - _ORIGIN) % self.interval


@dataclass(frozen=True, slots=True)
class At:
    """`At(moment)`: once."""

    moment: datetime

    def __post_init__(self) -> None:
        if not isinstance(self.moment, datetime):
            raise InvalidInput(f"at is {self.moment!r}: give an aware datetime")
        check_time("time", self.moment)
        object.__setattr__(self, "moment", self.moment.astimezone(UTC))

    @property
    def described(self) -> str:
        return f"once, at {self.moment:%Y-%m-%d %H:%M:%S} UTC"

    def first_after(self, moment: datetime) -> datetime | None:
        return self.moment if self.moment > moment else None

    def latest(self, until: datetime, after: datetime) -> datetime | None:
        return self.moment if after < self.moment <= until else None

    def between(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        return [self.moment][: self.count(after, until, limit)]

    def count(self, after: datetime, until: datetime, limit: int) -> int:
        return min(int(after < self.moment <= until), limit)


Timing = Cron | Every | At
"""What the three share. All moments are aware, all answers are in UTC.

`first_after(moment)` is the first plan time later than the moment, or None if none will come.
`latest(until, after)` is the latest one up to `until` and later than `after`, found without walking there.
`between(after, until, limit)` are the oldest ones later than `after` and up to `until`, in order.
`count(after, until, limit)` is how many those would be; `limit` itself means that many or more.
`described` says it in plain English.
"""


def read_timing(
    *,
    cron: str | None = None,
    tz: str | None = None,
    every: str | timedelta | None = None,
    at: datetime | None = None,
) -> Timing:
    """As callers write it: one of `cron`, `every` and `at`; `tz` belongs to `cron`."""
    given = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise InvalidInput(f"a schedule has one of cron, every and at, this has {found}")
    if tz is not None and cron is None:
        raise InvalidInput(f"tz goes with cron: plan times of {given[0]} are the same in every time zone")
    if cron is not None:
        return Cron(cron, "UTC" if tz is None else tz)
    if every is not None:
        return Every(duration(every, name="every"))
    assert at is not None  # noqa: S101  # one of the three was given
    return At(at)


def timing_to_json(timing: Timing) -> str:
    match timing:
        case Cron(expression, zone):
            return json.dumps({"cron": expression, "zone": zone})
        case Every(interval):
            return json.dumps({"every": interval.total_seconds()})
        case At(moment):
            return json.dumps({"at": moment.isoformat()})
        case _:
            assert_never(timing)


def timing_from_json(text: str) -> Timing:
    """What was stored; InvalidInput for a row written by hand that means nothing."""
    try:
        match json.loads(text):
            case {"cron": str(expression), "zone": str(zone)}:
                return Cron(expression, zone)
            case {"every": int(seconds) | float(seconds)}:
                return Every(timedelta(seconds=seconds))
            case {"at": str(moment)}:
                return At(datetime.fromisoformat(moment))
    except InvalidInput:
        raise
    except (ValueError, OverflowError, RecursionError):
        pass
    raise InvalidInput(f"timing {text[:200]!r} cannot be read: put the schedule again")


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]
