"""What an operator sees first: what needs attention, and how much goes on."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.insights.failure_records import FailureGroup
from holdfast.insights.harmful_settings import Level
from holdfast.insights.queue_records import QueueStatus
from holdfast.insights.stats_records import Stats

AttentionReason = Literal[
    "no_worker",
    "no_leader",
    "queue_unserved",
    "kind_unknown",
    "workers_quiet",
    "oldest_waiting",
    "limit_stuck",
    "failure_rate",
    "limit_stopped",
    "plans_missed",
    "schedule_error",
    "queue_paused",
    "limit_closed",
    "limit_keys_stopped",
    "worker_silent",
]


@dataclass(frozen=True, slots=True)
class Attention:
    """Something to look at. `reason` and `subject` (a queue, kind, limit, schedule or worker) are for
    programs; `sentence` says what is the matter, `advice` what to do. A `note` is past, or was asked for.
    """

    reason: AttentionReason
    subject: str | None
    sentence: str
    advice: str
    level: Level = "warning"

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".strip()


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many jobs are in a state; counted up to 10,000, `has_more` says that there are more."""

    count: int
    has_more: bool

    def __str__(self) -> str:
        return f"{self.count:,}{'+' if self.has_more else ''}"


@dataclass(frozen=True, slots=True)
class States:
    """`failed` are dead letters, `gated` wait for a permit of a limit, `waiting` are flows that wait."""

    ready: StateCount
    gated: StateCount
    scheduled: StateCount
    running: StateCount
    waiting: StateCount
    failed: StateCount


@dataclass(frozen=True, slots=True)
class Throughput:
    """In a minute, on average over the last five that are over."""

    enqueued: float
    started: float
    ended: float
    failed: float


@dataclass(frozen=True, slots=True)
class NextFire:
    """When a schedule fires next."""

    schedule: str
    kind: str
    queue: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    """`attention` is empty if all is well. `failed_last_hour` are runs that failed, also if they are retried.
    `queues` come by name, up to 1,000. `failures` are the groups that failed last, `fires` what is planned
    next, five of each. `last_hour` has the figures of the last hour by minute, for charts. `leader` is the id
    of the worker that leads. `now` is the database's time.
    """

    attention: tuple[Attention, ...]
    states: States
    throughput: Throughput
    failed_last_hour: int
    workers: int
    leader: int | None
    queues: tuple[QueueStatus, ...]
    failures: tuple[FailureGroup, ...]
    fires: tuple[NextFire, ...]
    last_hour: Stats
    now: datetime
