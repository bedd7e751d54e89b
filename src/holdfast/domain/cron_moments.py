"""When a cron expression comes in a time zone: the law for readings that are left out or come twice.

An expression that admits every hour is a pace: it comes whenever the clock shows a matching reading, so in
both passes of an hour that comes twice, and not at all in one that is left out. Any other names times of the
day, and each comes once: at the first moment at which the clock shows that reading or a later one. So a
reading that is left out comes when the clock has jumped, and one that comes twice counts the first time.

Every question is answered with a step or two of the expression, however far the answer lies.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from holdfast.domain.cron import Expression
from holdfast.domain.time_zones import Jump, first_moment, jump_at, reading_at, second_moment

_SECOND = timedelta(seconds=1)


# Cached because the scopes of a schedule ask the same question, thousands of them in one pass.
@lru_cache(maxsize=4096)
def first_after(expression: Expression, zone: ZoneInfo, moment: datetime) -> datetime | None:
    reading = reading_at(moment, zone)
    if expression.is_pace:
        return _pace_after(expression, zone, reading)
    if reading.fold:
        # Everything up to the end of this second pass has been shown before.
        reading = _jump(reading, zone).before - _SECOND
    found = next(expression.after(reading), None)
    return None if found is None else _once(found, zone)


@lru_cache(maxsize=4096)
def latest_until(expression: Expression, zone: ZoneInfo, until: datetime) -> datetime | None:
    reading = reading_at(until, zone)
    if expression.is_pace:
        return _pace_until(expression, zone, reading)
    end = _jump(reading, zone).before if reading.fold else _next_second(reading)
    found = next(expression.before(end), None)
    return None if found is None else _once(found, zone)


@lru_cache(maxsize=32)
def between(
    expression: Expression, zone: ZoneInfo, after: datetime, until: datetime, limit: int
) -> tuple[datetime, ...]:
    moments = takewhile(lambda moment: moment <= until, _moments_after(expression, zone, after))
    return tuple(islice(moments, limit))


def _moments_after(expression: Expression, zone: ZoneInfo, moment: datetime) -> Iterator[datetime]:
    """All of them, in order. Away from clock changes it steps on without looking again."""
    while (found := first_after(expression, zone, moment)) is not None:
        moment = found
        yield moment
        reading = reading_at(moment, zone)
        if jump_at(reading, zone) is not None:
            continue
        for step in expression.after(reading):
            if jump_at(step, zone) is not None:
                break
            moment = first_moment(step, zone)
            yield moment


def _once(reading: datetime, zone: ZoneInfo) -> datetime:
    jump = jump_at(reading, zone)
    return jump.moment if jump is not None and jump.is_gap else first_moment(reading, zone)


def _pace_after(expression: Expression, zone: ZoneInfo, reading: datetime) -> datetime | None:
    jump = jump_at(reading, zone)
    found = next(expression.after(reading), None)
    if jump is not None and not reading.fold and (found is None or found >= jump.before):
        # The first pass is through: on to the second.
        found = next(expression.after(jump.after - _SECOND), None)
        return None if found is None else second_moment(found, zone)
    while found is not None and (gap := jump_at(found, zone)) is not None and gap.is_gap:
        found = next(expression.after(gap.after - _SECOND), None)
    if found is None:
        return None
    is_second = jump is not None and reading.fold and found < jump.before
    return second_moment(found, zone) if is_second else first_moment(found, zone)


def _pace_until(expression: Expression, zone: ZoneInfo, reading: datetime) -> datetime | None:
    jump = jump_at(reading, zone)
    found = next(expression.before(_next_second(reading)), None)
    is_first = jump is not None and not reading.fold
    if jump is not None and reading.fold and (found is None or found < jump.after):
        # Nothing in the second pass up to here: back to the first.
        found, is_first = next(expression.before(jump.before), None), True
    while found is not None and (gap := jump_at(found, zone)) is not None and gap.is_gap:
        found = next(expression.before(gap.before), None)
    if found is None:
        return None
    is_first = is_first and jump is not None and found >= jump.after
    return first_moment(found, zone) if is_first else second_moment(found, zone)


def _jump(reading: datetime, zone: ZoneInfo) -> Jump:
    jump = jump_at(reading, zone)
    assert jump is not None  # noqa: S101  # a reading has a fold only where the clock jumped back
    return jump


def _next_second(reading: datetime) -> datetime:
    return reading.replace(microsecond=0, fold=0) + _SECOND
