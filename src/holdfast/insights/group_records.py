"""What is known of a group, as people and programs see it."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.domain.group import GroupCounts, GroupState
from holdfast.domain.states import FinalState, JobState
from holdfast.storage.groups import AwaitedRow, GroupRow, MemberRow, counts_of


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """How far a group has come. `closed_at`: its members had ended. `then_job`: the job that follows, once it
    is enqueued; `has_failed`: it is that of `on_failure`. `now` is the database's time.
    """

    id: int
    name: str | None
    tags: tuple[str, ...]
    state: GroupState
    counts: GroupCounts
    created_at: datetime
    closed_at: datetime | None
    ended_at: datetime | None
    cancelled_at: datetime | None
    cancel_reason: str | None
    then_kind: str | None
    on_failure_kind: str | None
    then_job: int | None
    has_failed: bool
    now: datetime

    @property
    def is_closed(self) -> bool:
        """Whether every member has ended."""
        return self.closed_at is not None

    @property
    def is_final(self) -> bool:
        """Whether the job that follows has ended too."""
        return self.ended_at is not None


@dataclass(frozen=True, slots=True)
class AwaitedMember:
    """A member that has not ended. `place` is that of its call, from 0 on."""

    place: int
    job: int
    kind: str
    state: JobState
    run_at: datetime | None


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group, some of the members that it waits for, and in one sentence what comes next."""

    status: GroupStatus
    awaited: tuple[AwaitedMember, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group. `state` is None while it has not ended, `kind` once it is gone. `is_guest`: an
    active job had the same unique key, and stands for the call.
    """

    place: int
    job: int
    kind: str | None
    state: FinalState | None
    finished_at: datetime | None
    result: Any
    error: dict[str, Any] | None
    flag: str | None
    is_guest: bool

    @property
    def is_gone(self) -> bool:
        """Whether nothing is known of it any more: it was pruned after its retention, or deleted."""
        return self.state is None and self.kind is None


def status_of(row: GroupRow) -> GroupStatus:
    return GroupStatus(
        row.id,
        row.name,
        tuple(row.tags or ()),
        row.state,
        counts_of(row),
        row.created_at,
        row.closed_at,
        row.ended_at,
        row.cancelled_at,
        row.cancel_reason,
        row.then_kind,
        row.on_failure_kind,
        row.then_job,
        bool(row.has_failed),
        row.now,
    )


def member_of(row: MemberRow) -> Member:
    return Member(
        row.place,
        row.job,
        row.kind,
        row.state,
        row.finished_at,
        json.loads(row.result) if row.result and not row.flag else None,
        json.loads(row.error) if row.error else None,
        row.flag,
        row.is_guest and row.kind is not None,
    )


def detail_of(row: GroupRow, awaited: list[AwaitedRow]) -> GroupDetail:
    status = status_of(row)
    return GroupDetail(status, tuple(AwaitedMember(*each) for each in awaited), _sentence(status, awaited))


def _sentence(status: GroupStatus, awaited: list[AwaitedRow]) -> str:
    counts = status.counts
    match status.state:
        case "running" if not awaited and counts.left == 0:
            return f"Every member has ended: the leader lets {_next(status)} follow within seconds."
        case "running":
            return (
                f"{counts.left:,} of {counts.members:,} members have not ended; then {_next(status)} follows."
            )
        case "cancelling":
            return f"It was cancelled: {counts.left:,} of {counts.members:,} members have not ended yet."
        case "finishing":
            return f"Every member has ended, and job {status.then_job} ({_ran(status)}) follows."
        case "cancelled":
            return "It was cancelled, and nothing follows."
        case "ended":
            last = (
                "nothing follows"
                if status.then_job is None
                else f"so has job {status.then_job} ({_ran(status)})"
            )
            return f"Every member has ended, and {last}."


def _next(status: GroupStatus) -> str:
    """What is to follow, as far as it is known by now."""
    if status.on_failure_kind is not None and status.counts.unsuccessful:
        return f"{status.on_failure_kind} (on_failure)"
    return "nothing" if status.then_kind is None else status.then_kind


def _ran(status: GroupStatus) -> str:
    kind = status.on_failure_kind if status.has_failed else status.then_kind
    return f"{kind}, {'on_failure' if status.has_failed else 'then'}"
