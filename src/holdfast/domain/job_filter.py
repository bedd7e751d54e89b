"""Which jobs an operator means: the value behind `state:failed kind:pay created:<1h`.

Python and the command line share this value and its text. `filter_parser.py` reads the text;
`str(job_filter)` writes it, so that a filter can be kept in an audit row or put into a link.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from holdfast.domain.duration import compact
from holdfast.domain.states import JOB_STATES, JobState

FilterState = Literal[JobState, "retrying"]
"""A state, or `retrying`: scheduled after at least one attempt."""

FILTER_STATES: tuple[FilterState, ...] = (*JOB_STATES, "retrying")

Comparison = Literal["<", "<=", "=", ">=", ">"]
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)


@dataclass(frozen=True, slots=True)
class NumberBound:
    """`attempt:>3`."""

    comparison: Comparison
    number: int

    def __str__(self) -> str:
        return f"{'' if self.comparison == '=' else self.comparison}{self.number}"


@dataclass(frozen=True, slots=True)
class TimeBound:
    """`created:<1h` is an age: less than an hour ago. `created:<2026-01-31` is a time: before that day."""

    comparison: Comparison
    age: timedelta | None = None
    time: datetime | None = None

    def __str__(self) -> str:
        if self.age is not None:
            return f"{self.comparison}{_age(self.age)}"
        assert self.time is not None  # noqa: S101  # one of the two is given
        return f"{self.comparison}{self.time.astimezone(UTC).isoformat()}"


@dataclass(frozen=True, slots=True)
class ArgumentMatch:
    """`args.customer.id:42`. `value` is JSON text, so that 42 and "42" are two values."""

    path: tuple[str, ...]
    value: str

    def __str__(self) -> str:
        read = json.loads(self.value)
        # A bare word is read as JSON if it is JSON: a text that looks like a number keeps its quotes.
        shown = _quoted(read, always=_is_json(read)) if isinstance(read, str) else _quoted(self.value)
        return f"args.{'.'.join(self.path)}:{shown}"


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A job matches if it matches every field that is set; within a field, any of its values; for tags, all
    of them. An empty filter matches every job.
    """

    ids: tuple[int, ...] = ()
    states: tuple[FilterState, ...] = ()
    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    workers: tuple[int, ...] = ()
    schedules: tuple[str, ...] = ()
    flows: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    failures: tuple[str, ...] = ()
    priority: tuple[NumberBound, ...] = ()
    attempt: tuple[NumberBound, ...] = ()
    created: tuple[TimeBound, ...] = ()
    finished: tuple[TimeBound, ...] = ()
    errors: tuple[str, ...] = ()
    arguments: tuple[ArgumentMatch, ...] = field(default=())

    def __bool__(self) -> bool:
        return self != JobFilter()

    def __str__(self) -> str:
        listed = {
            "id": self.ids,
            "state": self.states,
            "kind": self.kinds,
            "queue": self.queues,
            "worker": self.workers,
            "schedule": self.schedules,
            "flow": self.flows,
            "group": self.groups,
            "failure": self.failures,
        }
        terms = [f"{word}:{_listed(values)}" for word, values in listed.items() if values]
        terms += [f"tag:{_quoted(tag)}" for tag in self.tags]
        bounds: dict[str, tuple[NumberBound | TimeBound, ...]] = {
            "priority": self.priority,
            "attempt": self.attempt,
            "created": self.created,
            "finished": self.finished,
        }
        terms += [f"{word}:{bound}" for word, several in bounds.items() for bound in several]
        terms += [f"error:{_quoted(text)}" for text in self.errors]
        terms += [str(match) for match in self.arguments]
        return " ".join(terms)


def _age(length: timedelta) -> str:
    """Exact, without spaces."""
    if length.microseconds % 1_000:
        return f"{length / timedelta(milliseconds=1):.3f}ms"
    return compact(length).replace(" ", "")


def _listed(values: Iterable[object]) -> str:
    return ",".join(_quoted(str(value)) for value in values)


def _quoted(text: str, *, always: bool = False) -> str:
    """Quoted where it would not be read back as one bare word."""
    is_bare = text and not always and not any(c.isspace() or c in '",\\' for c in text)
    if is_bare:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
