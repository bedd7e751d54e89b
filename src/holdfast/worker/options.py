"""How a worker runs, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from holdfast.domain.job import check_name, is_whole
from holdfast.errors import InvalidInput
from holdfast.storage.runs import Retention
from holdfast.worker.keeper import Beats

_SLOTS = range(1, 100_001)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """`queues` maps each queue to the number of its jobs that may run here at once."""

    queues: Mapping[str, int] = field(default_factory=lambda: {"default": 100})
    grace: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(seconds=5)
    beats: Beats = field(default_factory=Beats)
    leader_lease: timedelta = timedelta(seconds=10)
    retention: Retention = field(default_factory=Retention)
    is_leading_allowed: bool = True

    def __post_init__(self) -> None:
        if not self.queues:
            raise InvalidInput('a worker needs a queue: give queues={"default": 100}')
        for name, slots in self.queues.items():
            check_name("queue", name)
            if not is_whole(slots) or slots not in _SLOTS:
                raise InvalidInput(f'queue "{name}" has {slots!r} slots: give 1 to {_SLOTS[-1]}')
        if self.grace < timedelta():
            raise InvalidInput("grace must not be negative")
        if self.poll <= timedelta():
            raise InvalidInput("the poll interval must be longer than nothing")
        if self.beats.interval * 2 > self.beats.lease:
            raise InvalidInput("a lease must last at least two beats")
