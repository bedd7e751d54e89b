"""Where a job can be, and the other things the model is made of."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.domain.job import NewJob
from holdfast.domain.states import RunOutcome


@dataclass(frozen=True, slots=True)
class Ready:
    attempt: int
    segment: int


@dataclass(frozen=True, slots=True)
class Scheduled:
    attempt: int
    run_at: datetime


@dataclass(frozen=True, slots=True)
class Running:
    attempt: int
    worker: int
    run: int
    started_at: datetime
    timeout_at: datetime
    is_cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    attempt: int
    outcome: RunOutcome
    keep_until: datetime


Place = Ready | Scheduled | Running | Ended


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the ledger. `run` is None for an ending without a run: no worker was given its number."""

    run: int | None
    outcome: RunOutcome
    attempt: int
    is_final: bool
    is_taken_away: bool = False


@dataclass(slots=True)
class Job:
    id: int
    new: NewJob
    place: Place
    entries: list[Entry] = field(default_factory=list)

    @property
    def is_active(self) -> bool:
        return not isinstance(self.place, Ended)

    @property
    def is_dead(self) -> bool:
        return isinstance(self.place, Ended) and self.place.outcome == "failed" and self.is_kept

    @property
    def is_kept(self) -> bool:
        """Whether the job's own row is there: one that asks to be forgotten is, as soon as it ends."""
        return self.is_active or self.new.policy.keep != timedelta()

    @property
    def key(self) -> tuple[str, str] | None:
        return (self.new.policy.queue, self.new.unique_key) if self.new.unique_key else None

    def is_before_deadline(self, now: datetime) -> bool:
        return self.new.deadline_at is None or self.new.deadline_at > now


@dataclass(slots=True)
class Worker:
    """`memory` is what the process knows, `is_gone` and `lost_at` what the database does."""

    id: int
    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    expires_at: datetime
    lost_at: datetime | None = None
    is_gone: bool = False
    memory: set[int] = field(default_factory=set)
    closed: int | None = None

    @property
    def is_alive(self) -> bool:
        return self.lost_at is None and not self.is_gone


@dataclass(slots=True)
class RingModel:
    current: int = 0
    version: int = 1
    closed: int | None = None
    closed_until: datetime | None = None

    def closed_at(self, now: datetime) -> int | None:
        return self.closed if self.closed_until is not None and self.closed_until > now else None
