"""How times, lengths, numbers and whole values look in the output of commands: for people, and as JSON."""

import json
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from holdfast.cli.state_look import Cell
from holdfast.domain.duration import compact

ENDED = Cell("ENDED (UTC)", on_terminal="ENDED")
"""A head above an `age`."""
_SECOND = timedelta(seconds=1)
# From which length on, which unit is small enough.
_COARSE = (
    (timedelta(days=2), timedelta(hours=1)),
    (timedelta(hours=1), timedelta(minutes=1)),
    (_SECOND, _SECOND),
)


def moment(time: datetime | None, zone: tzinfo = UTC) -> str:
    return "" if time is None else f"{time.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def length(span: timedelta | None) -> str:
    """As exact as it matters: `3d 4h`, `2h 5m`, `12s`, `40ms`."""
    if span is None:
        return ""
    for least, unit in _COARSE:
        if abs(span) >= least:
            return compact(span // unit * unit if span > timedelta() else -(-span // unit * unit))
    return compact(timedelta(milliseconds=round(span / timedelta(milliseconds=1))))


def how_many(number: int, word: str) -> str:
    """`1 job`, `1,200 jobs`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def distance(time: datetime | None, now: datetime) -> str:
    """`in 5m`, `3h ago`."""
    if time is None:
        return ""
    return f"in {length(time - now)}" if time > now else f"{length(now - time)} ago"


def age(time: datetime | None, now: datetime) -> Cell:
    """`3h ago` on a terminal; the time itself when it is piped, where it is read later."""
    return Cell(moment(time), on_terminal=distance(time, now))


def as_json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> object:
    """Times as ISO 8601 in UTC, lengths as seconds."""
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case timedelta():
            return value.total_seconds()
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _plain(asdict(value))
        case _:
            return value
