"""How a worker runs, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import TypeVar

from holdfast.domain.duration import Length, compact, duration
from holdfast.domain.job import check_length, check_name, is_whole
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidInput
from holdfast.worker.lease_keeper import Beats
from holdfast.worker.queue_choice import SLOTS

Lengths = TypeVar("Lengths", Beats, Retention)

_SLOTS = range(1, 100_001)
_CHILDREN = range(1, 1_001)
_EXAMPLE = f'give queues={{"default": {SLOTS}}}'
_BEATS = Beats()
_RETENTION = Retention()


@dataclass(frozen=True, slots=True, init=False)
class WorkerOptions:
    """`queues` maps each queue to the number of its jobs that may run here at once. `children` is how many
    child processes work at once for jobs and steps with `isolate="process"`: as many as there are cores,
    unless it is given.
    """

    queues: Mapping[str, int]
    grace: timedelta
    poll: timedelta
    beats: Beats
    leader_lease: timedelta
    retention: Retention
    is_leading_allowed: bool
    children: int | None

    def __init__(
        self,
        *,
        queues: Mapping[str, int] | None = None,
        grace: Length = "30s",
        poll: Length = "5s",
        beats: Beats = _BEATS,
        leader_lease: Length = "10s",
        retention: Retention = _RETENTION,
        is_leading_allowed: bool = True,
        children: int | None = None,
    ) -> None:
        if not isinstance(is_leading_allowed, bool):
            raise InvalidInput(f"is_leading_allowed is {is_leading_allowed!r}: give True or False")
        read = {
            "queues": {"default": SLOTS} if queues is None else _queues(queues),
            "grace": _length("grace", grace),
            "poll": _some_time("poll", poll),
            "beats": _beats(beats),
            "leader_lease": _some_time("leader_lease", leader_lease),
            "retention": _lengths("retention", retention, Retention),
            "is_leading_allowed": is_leading_allowed,
            "children": None if children is None else _children(children),
        }
        for name, value in read.items():
            object.__setattr__(self, name, value)


def _queues(queues: object) -> dict[str, int]:
    if not isinstance(queues, Mapping):
        raise InvalidInput(f"queues is {queues!r}: say how many jobs of each may run at once, {_EXAMPLE}")
    if not queues:
        raise InvalidInput(f"a worker needs a queue: {_EXAMPLE}")
    for name, slots in queues.items():
        check_name("queue", name)
        if not is_whole(slots) or slots not in _SLOTS:
            raise InvalidInput(f'queue "{name}" has {slots!r} slots: give 1 to {_SLOTS[-1]}')
    return dict(queues)


def _children(children: int) -> int:
    if not is_whole(children) or children not in _CHILDREN:
        raise InvalidInput(f"children is {children!r}: give a whole number from 1 to {_CHILDREN[-1]}")
    return children


def _length(name: str, value: object) -> timedelta:
    length = duration(value, name=name)
    if length < timedelta():
        raise InvalidInput(f"{name} is {compact(length)}: it must not be negative")
    check_length(name, length)
    return length


def _some_time(name: str, value: object) -> timedelta:
    length = _length(name, value)
    if not length:
        raise InvalidInput(f"{name} is {compact(length)}: it must be above 0")
    return length


def _lengths(name: str, value: Lengths, kind: type[Lengths]) -> Lengths:
    names = [field.name for field in fields(kind)]
    if not isinstance(value, kind):
        raise InvalidInput(f"{name} is {value!r}: give {kind.__name__}({', '.join(f'{n}=…' for n in names)})")
    return replace(value, **{each: _length(f"{name}.{each}", getattr(value, each)) for each in names})


def _beats(given: Beats) -> Beats:
    beats = _lengths("beats", given, Beats)
    _some_time("beats.interval", beats.interval)
    if beats.interval * 2 > beats.lease:
        raise InvalidInput(
            f"beats.lease is {compact(beats.lease)}, the interval {compact(beats.interval)}: "
            "a lease must last at least two of them"
        )
    return beats
