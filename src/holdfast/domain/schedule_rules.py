"""What a schedule does with its plans: the missed ones, the overlapping ones, and when their jobs run."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from holdfast.domain.duration import LONGEST, Length, compact, duration
from holdfast.domain.job import check_name, check_time, is_whole
from holdfast.domain.timing import At, Every, Timing
from holdfast.errors import InvalidInput

Missed = Literal["latest", "every", "skip"]
Overlap = Literal["allow", "skip", "queue"]

PER_PASS = 100
MOST_PER_PASS = 10_000
LATENESS = timedelta(minutes=1)
_NONE = timedelta()


@dataclass(frozen=True, slots=True)
class Rules:
    """`missed`: of the plans that were due and not decided, fire the `latest`, `every` one, or `skip` them.

    `window` (with "every"): older plans are dropped. `max_per_pass` (not with "latest"): the most at once.
    `max_lateness` (with "skip"): a plan decided later than that is too late; a minute unless given.
    `overlap`: while the job of an earlier plan is active, `allow` another, `skip` the plan, or `queue` it.
    `delay` and `jitter` move the job, never the plan. Plans lie from `starts_at` up to, not at, `ends_at`.
    """

    missed: Missed = "latest"
    window: timedelta | None = None
    max_per_pass: int | None = None
    max_lateness: timedelta | None = None
    overlap: Overlap = "allow"
    delay: timedelta = _NONE
    jitter: timedelta = _NONE
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    def __post_init__(self) -> None:
        _check_choice("missed", self.missed, get_args(Missed))
        _check_choice("overlap", self.overlap, get_args(Overlap))
        _check_goes_with("window", self.window, self.missed, ("every",))
        _check_goes_with("max_per_pass", self.max_per_pass, self.missed, ("every", "skip"))
        _check_goes_with("max_lateness", self.max_lateness, self.missed, ("skip",))
        _check_length("window", self.window, is_above_zero=True)
        _check_length("max_lateness", self.max_lateness, is_above_zero=True)
        _check_length("delay", self.delay)
        _check_length("jitter", self.jitter)
        _check_count(self.max_per_pass)
        self._check_times()

    def _check_times(self) -> None:
        for name, moment in (("starts_at", self.starts_at), ("ends_at", self.ends_at)):
            if moment is not None and not isinstance(moment, datetime):
                raise InvalidInput(f"{name} is {moment!r}: give an aware datetime")
            check_time(name, moment)
            object.__setattr__(self, name, moment and moment.astimezone(UTC))
        if self.starts_at is not None and self.ends_at is not None and self.starts_at >= self.ends_at:
            raise InvalidInput(
                f"starts_at {self.starts_at} is not before ends_at {self.ends_at}: nothing would fire"
            )


def read_rules(
    *,
    missed: Missed = "latest",
    window: Length | None = None,
    max_per_pass: int | None = None,
    max_lateness: Length | None = None,
    overlap: Overlap = "allow",
    delay: Length = _NONE,
    jitter: Length = _NONE,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
) -> Rules:
    """As callers write them, with lengths such as "24h"."""
    return Rules(
        missed=missed,
        window=None if window is None else duration(window, name="window"),
        max_per_pass=max_per_pass,
        max_lateness=None if max_lateness is None else duration(max_lateness, name="max_lateness"),
        overlap=overlap,
        delay=duration(delay, name="delay"),
        jitter=duration(jitter, name="jitter"),
        starts_at=starts_at,
        ends_at=ends_at,
    )


def check_scope(scope: object) -> None:
    """The scope of a question: None for all of them, the empty name for the whole app."""
    if scope is not None and scope != "":
        check_name("scope", scope)


def check_together(timing: Timing, rules: Rules) -> None:
    """Refuse a timing and rules that make sense alone but not together."""
    if isinstance(timing, At) and (rules.starts_at is not None or rules.ends_at is not None):
        raise InvalidInput(
            "at= is one moment: starts_at and ends_at say nothing more about it, leave them out"
        )
    if isinstance(timing, Every) and rules.jitter >= timing.interval:
        raise InvalidInput(
            f"jitter is {compact(rules.jitter)}, not shorter than the interval of {compact(timing.interval)}"
            ": a job could run after that of the next plan"
        )
    if rules.ends_at is not None:
        after = (rules.starts_at or datetime.min.replace(tzinfo=UTC, year=1900)) - datetime.resolution
        if timing.latest(rules.ends_at - datetime.resolution, after) is None:
            raise InvalidInput(f"no plan lies before ends_at {rules.ends_at}: nothing would ever fire")


def rules_to_json(rules: Rules) -> str:
    """Only what differs from the default, so that a new default reaches schedules that never chose."""
    chosen = {field.name: getattr(rules, field.name) for field in fields(rules)}
    differing = {name: value for name, value in chosen.items() if value != getattr(_DEFAULT, name)}
    return json.dumps({name: _plain(value) for name, value in differing.items()})


def rules_from_json(text: str) -> Rules:
    """What was stored; InvalidInput for a row written by hand that means nothing."""
    try:
        stored = json.loads(text)
        return Rules(**{name: _READERS.get(name, _same)(value) for name, value in stored.items()})
    except InvalidInput:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidInput(f"rules {text[:200]!r} cannot be read: put the schedule again") from None


def _same(value: Any) -> Any:
    return value


def _seconds(value: Any) -> timedelta:
    return timedelta(seconds=value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "window": _seconds,
    "max_lateness": _seconds,
    "delay": _seconds,
    "jitter": _seconds,
    "starts_at": datetime.fromisoformat,
    "ends_at": datetime.fromisoformat,
}


def _plain(value: object) -> object:
    match value:
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.isoformat()
        case _:
            return value


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidInput(f"{name} is {value!r}: give one of {', '.join(choices)}")


def _check_goes_with(name: str, value: object, missed: str, fitting: tuple[str, ...]) -> None:
    if value is not None and missed not in fitting:
        wanted = " or ".join(f'"{choice}"' for choice in fitting)
        raise InvalidInput(f'{name} goes with missed={wanted}, this schedule has missed="{missed}"')


def _check_length(name: str, length: object, *, is_above_zero: bool = False) -> None:
    if length is None:
        return
    if not isinstance(length, timedelta):
        raise InvalidInput(f"{name} is {length!r}: give a timedelta")
    if length < _NONE or (is_above_zero and length == _NONE) or length > LONGEST:
        least = "above 0" if is_above_zero else "of 0 or more"
        raise InvalidInput(f"{name} is {compact(length)}: give a length {least}, up to {compact(LONGEST)}")


def _check_count(count: object) -> None:
    if count is not None and (not is_whole(count) or count not in range(1, MOST_PER_PASS + 1)):
        raise InvalidInput(f"max_per_pass is {count!r}: give 1 to {MOST_PER_PASS}")


_DEFAULT = Rules()
