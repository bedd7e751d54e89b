"""Parse, check and step through cron expressions, as readings of a local clock that never jumps.

How a time zone maps readings to moments is decided in `cron_moments`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from holdfast.errors import InvalidInput

_SHORT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = ("second", "minute", "hour", "day of month", "month", "day of week")
_SPANS = (60, 60, 24, 31, 12, 7)
_LIMIT = 200  # characters: far more than any sensible expression has
_SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001  # a reading
_HOURS = frozenset(range(24))


@dataclass(frozen=True, slots=True)
class Expression:
    """Six fields, seconds first. `is_pace`: it allows every hour, so it sets a rate, not times of day."""

    fields: str
    is_pace: bool

    @property
    def described(self) -> str:
        """Such as "At 09:00 on Monday through Friday"."""
        return CronSim(self.fields, _SOME_DAY).explain()

    def after(self, reading: datetime) -> Iterator[datetime]:
        """Matching readings later than this one, in order; ends when there is none for fifty years."""
        return _steps(self.fields, reading, is_reverse=False)

    def before(self, reading: datetime) -> Iterator[datetime]:
        """Matching readings earlier than this one, latest first."""
        return _steps(self.fields, reading, is_reverse=True)


def _steps(fields: str, reading: datetime, *, is_reverse: bool) -> Iterator[datetime]:
    try:
        yield from CronSim(fields, reading.replace(fold=0), reverse=is_reverse)
    except (OverflowError, ValueError):  # the end of the calendar
        return


@lru_cache(maxsize=4096)
def read_expression(text: str) -> Expression:
    """Five fields (minute first), six (second first) or a form such as @daily."""
    if len(text) > _LIMIT:
        raise InvalidInput(f"a cron expression of {len(text)} characters: the longest is {_LIMIT}")
    fields = _SHORT.get(text.strip().lower(), text).upper().split()
    if len(fields) == len(_FIELDS) - 1:
        fields.insert(0, "0")
    if len(fields) != len(_FIELDS):
        raise InvalidInput(_wrong_number(text, len(fields)))
    for name, span, field in zip(_FIELDS, _SPANS, fields, strict=True):
        _check_steps(text, name, span, field)
    _check_readable(text, fields)
    joined = " ".join(fields)
    expression = Expression(joined, is_pace=CronSim(joined, _SOME_DAY).hours >= _HOURS)
    if next(expression.after(_SOME_DAY), None) is None:
        raise InvalidInput(f"cron {text!r} never fires: no calendar has such a day")
    return expression


def _wrong_number(text: str, count: int) -> str:
    if text.strip().startswith("@"):
        return f'cron {text!r} is not known: give one of {", ".join(_SHORT)}, or every="5m" for an interval'
    return (
        f"cron {text!r} has {count} fields: give 5 (minute, hour, day of month, month, day of week), "
        'such as "0 9 * * mon-fri", or 6 with seconds first'
    )


def _check_steps(text: str, name: str, span: int, field: str) -> None:
    """A step past the end of its field would be read as "once": */90 minutes would fire every hour."""
    for step in re.findall(r"/(\d+)", field, re.ASCII):
        if int(step) >= span > 1:
            raise InvalidInput(
                f"cron {text!r}: a step of {step} is too large for its {name} field; "
                'for an interval, give every="90m" or the like'
            )


def _check_readable(text: str, fields: list[str]) -> None:
    """Check one field at a time, so that the error can name the wrong one."""
    for index, field in enumerate(fields):
        alone = ["*"] * len(fields)
        alone[index] = field
        try:
            CronSim(" ".join(alone), _SOME_DAY)
        except (CronSimError, AssertionError, ValueError):
            hint = "; a range must ascend, so list the values: fri,sat,sun" if "-" in field else ""
            raise InvalidInput(
                f"cron {text!r}: {_FIELDS[index]} {field.lower()!r} is not valid{hint}"
            ) from None
    try:
        CronSim(" ".join(fields), _SOME_DAY)
    except (CronSimError, AssertionError, ValueError):
        raise InvalidInput(f"cron {text!r} never fires: no such month has that day") from None
