"""What a leader chore declares: its name, its pace, what wakes it and what it needs.

`holdfast.leader_chores` lists all of them, and says how to add one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Protocol, Union

from holdfast.domain.retention import Retention
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.telemetry.events import Emitter
from holdfast.worker.unserved_warnings import UnservedWarnings


@dataclass(frozen=True, slots=True)
class Did:
    """What one turn of a chore did: how many rows, whether there is more to do at once, and in how many
    seconds to look again.

    `again_in=0` means that something is due, but another transaction has it locked.
    """

    count: int = 0
    is_more: bool = False
    again_in: float | None = None


class Turning(Protocol):
    """The part of a chore that does the work. All of them are harmless under two leaders."""

    async def once(self) -> Did: ...


@dataclass(frozen=True, slots=True)
class ChoreNeeds:
    """What a worker gives its chores. `lease` is how long a worker may be silent before its jobs are rescued.
    `on_end` tells this worker that jobs have ended, or lost an attempt, so that their hooks may be called.
    `unserved` are the warnings of this worker, which it may have begun at its start.
    """

    database: Database
    schema: Schema
    emitter: Emitter
    retention: Retention
    lease: timedelta
    on_end: Callable[[], None]
    unserved: UnservedWarnings


class Sign(Enum):
    """What the leader notices by itself, without a notification."""

    SILENT_WORKER = auto()
    """The answer to its renewal says that a worker's lease has run out."""
    MANY_CLAIMED = auto()
    """Thousands of jobs went through this process since the last time."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Chore:
    """A chore waits `shortest` seconds after a turn that did something, then longer and longer, up to
    `longest`, while there is nothing to do. A chore that knows when something is due looks again just then.
    """

    name: str
    make: Callable[[ChoreNeeds], Turning]
    """Called each time a worker begins to lead: what a chore remembers may be wrong by then."""
    shortest: float
    longest: float
    woken_by: tuple["WakeUp", ...] = ()
    """Channels, signs, and other chores: each of their turns that did something."""
    polls_unheard: bool = False
    """Looks at every poll while notifications do not arrive."""
    fills_ready: bool = False
    """The jobs that it counts can be claimed at once."""
    follows_lease: bool = False
    """Looks within a worker's lease, if that is shorter than its own pace."""

    def pace(self, lease: timedelta) -> tuple[float, float]:
        """The shortest and the longest wait, in seconds."""
        if not self.follows_lease:
            return self.shortest, self.longest
        seconds = lease.total_seconds()
        return min(self.shortest, seconds / 4), min(self.longest, seconds)


WakeUp = Union[Channel, Sign, Chore]  # noqa: UP007  # named by Chore before it exists


def channels_of(chores: Iterable[Chore]) -> set[Channel]:
    """The channels that wake any of these chores."""
    return {by for chore in chores for by in chore.woken_by if isinstance(by, Channel)}
