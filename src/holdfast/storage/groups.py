"""Groups: jobs whose ends are awaited together, and the job that follows them.

docs/explanation/groups.md explains the protocol. In short: the ends of members leave wake-ups, as those of a
flow's children do, and the leader adds them up. That is a hint: before it closes a group it looks at every
member. What follows is enqueued in the transaction that closes the group, and so once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from holdfast.domain.group import EndedGroup, Follower, GroupCounts, GroupState, follower, with_group
from holdfast.domain.job import NewJob, check_ids, check_limit
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.retention import GROUPS, Retention
from holdfast.domain.states import FinalState, JobState
from holdfast.domain.uniqueness import OnConflict
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.arrays import text_array
from holdfast.storage.jobs import Enqueued, Membership, enqueue, enqueue_many
from holdfast.storage.operators import cancel
from holdfast.storage.statements import statement
from holdfast.storage.stored_jobs import job_of, job_text, with_origin

WALKED = 5_000
"""How many members one statement looks at."""
CANCELLED = 500
"""How many members one transaction cancels."""


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A group before it is written, without its members."""

    name: str | None = None
    tags: tuple[str, ...] = ()
    then: NewJob | None = None
    on_failure: NewJob | None = None


class DueGroup(NamedTuple):
    """An open group for which there may be something to do. `is_over`: the first member that was awaited has
    ended.
    """

    id: int
    members: int
    guests: int
    awaited_place: int
    is_closed: bool
    is_cancelling: bool
    is_over: bool


class Walk(NamedTuple):
    """Members in a row, by how they ended, and the first of them that has not."""

    succeeded: int
    failed: int
    cancelled: int
    expired: int
    gone: int
    awaited: int | None


class LockedGroup(NamedTuple):
    name: str | None
    members: int
    on_success: str | None
    on_failure: str | None
    is_cancelled: bool


class Closed(NamedTuple):
    """What became of a group whose members may have ended: `awaited` is the place of the first that has not;
    `is_closed` whether it was closed now, `job` the one that follows.
    """

    is_closed: bool = False
    awaited: int | None = None
    job: int | None = None


class GroupRow(NamedTuple):
    id: int
    name: str | None
    tags: list[str] | None
    state: GroupState
    members: int
    succeeded: int
    failed: int
    cancelled: int
    expired: int
    gone: int
    guests: int
    created_at: datetime
    closed_at: datetime | None
    ended_at: datetime | None
    cancelled_at: datetime | None
    cancel_reason: str | None
    then_job: int | None
    has_failed: bool | None
    then_kind: str | None
    on_failure_kind: str | None
    now: datetime


class MemberRow(NamedTuple):
    """A member. Without a `state` it has not ended; without a `kind` it is gone."""

    place: int
    job: int
    kind: str | None
    state: FinalState | None
    finished_at: datetime | None
    result: str | None
    error: str | None
    flag: str | None
    is_guest: bool


class AwaitedRow(NamedTuple):
    place: int
    job: int
    kind: str
    state: JobState
    run_at: datetime | None


class CancelAsked(NamedTuple):
    answer: str
    then_job: int | None
    members: int


class ToCancel(NamedTuple):
    """A member of a group that is cancelled; without a job it is left alone."""

    cancel_reason: str | None
    place: int
    job: int | None


_OPEN = statement("group_open", int)
_FILL = statement("group_fill", int)
_COUNT = statement("group_count", int)
_DUE = statement("group_due", DueGroup, is_repeatable=True)
_WALK = statement("group_walk", Walk, is_repeatable=True)
_AWAIT = statement("group_await", int, is_repeatable=True)
_LOCK = statement("group_lock", LockedGroup)
_CLOSE = statement("group_close", int)
_END = statement("group_end", int, is_repeatable=True)
_CANCEL = statement("group_cancel", CancelAsked, is_repeatable=True)
_TO_CANCEL = statement("group_to_cancel", ToCancel, is_repeatable=True)
_CANCELLED = statement("group_cancelled", int, is_repeatable=True)
_PRUNE = statement("group_prune", int)
_LIST = statement("group_list", GroupRow, is_repeatable=True)
_SHOW = statement("group_show", GroupRow, is_repeatable=True)
_RESULTS = statement("group_results", MemberRow, is_repeatable=True)
_AWAITED = statement("group_awaited", AwaitedRow, is_repeatable=True)


def create(
    schema: Schema,
    new: NewGroup,
    jobs: Sequence[NewJob],
    *,
    on_conflict: OnConflict = "existing",
    notify: bool,
    now: datetime | None = None,
) -> Conversation[tuple[int, list[Enqueued]]]:
    """Write a group with its members: its id, and which job each of them is. Hold it in a transaction."""
    [group] = yield from ask(
        _OPEN.with_params(
            schema,
            name=new.name,
            tags=text_array(new.tags) if new.tags else None,
            on_success=None if new.then is None else job_text(new.then),
            on_failure=None if new.on_failure is None else job_text(new.on_failure),
            now=now,
        )
    )
    rows = yield from enqueue_many(schema, jobs, on_conflict=on_conflict, notify=notify, group=group, now=now)
    guests = sum(1 for row in rows if not row.is_new)
    yield from ask(_FILL.with_params(schema, job_group=group, members=len(rows), guests=guests))
    return group, rows


def count_ends(schema: Schema, ids: Sequence[int], *, now: datetime | None = None) -> Statement[int]:
    """Add the ends that these wake-ups tell of to the counts of their groups."""
    return _COUNT.with_params(schema, ids=list(ids), keep=GROUPS, now=now)


def due(schema: Schema, *, is_sweep: bool, after: int = 0, limit: int = 100) -> Statement[DueGroup]:
    """Open groups that there may be something to do for; with `is_sweep` also those that nothing told of."""
    return _DUE.with_params(schema, is_sweep=is_sweep, after=after, limit=limit)


def walk(schema: Schema, group: int, *, first: int, last: int) -> Statement[Walk]:
    return _WALK.with_params(schema, job_group=group, first=first, last=last)


def first_awaited(schema: Schema, group: DueGroup) -> Conversation[int | None]:
    """The place of the first member that has not ended, from the one on that was awaited before; None: there
    is none behind it.
    """
    for first, last in _pages(group.awaited_place, group.members):
        [seen] = yield from ask(walk(schema, group.id, first=first, last=last))
        if seen.awaited is not None:
            return seen.awaited
    return None


def counted(schema: Schema, group: int, members: int) -> Conversation[GroupCounts | int]:
    """How all members ended; or the place of one that has not."""
    counts = GroupCounts(0)
    for first, last in _pages(0, members):
        [seen] = yield from ask(walk(schema, group, first=first, last=last))
        if seen.awaited is not None:
            return seen.awaited
        counts += GroupCounts(last - first, *seen[:-1])
    return counts


def wait_for(schema: Schema, group: int, place: int) -> Statement[int]:
    """Remember which member is awaited."""
    return _AWAIT.with_params(schema, job_group=group, place=place)


def close(
    schema: Schema, group: int, counts: GroupCounts, *, now: datetime | None = None
) -> Conversation[Closed]:
    """Close a group whose members have ended so, and enqueue what follows. Hold it in a transaction."""
    rows = yield from ask(_LOCK.with_params(schema, job_group=group))
    if not rows:
        return Closed()
    [locked] = rows
    which = follower(
        counts,
        has_then=locked.on_success is not None,
        has_on_failure=locked.on_failure is not None,
        is_cancelled=locked.is_cancelled,
    )
    job = None
    if which is not None:
        [row] = yield from ask(_follow(schema, group, locked, which, counts, now=now))
        job = row.job
    yield from ask(
        _CLOSE.with_params(
            schema,
            job_group=group,
            then_job=job,
            has_failed=which == "on_failure",
            succeeded=counts.succeeded,
            failed=counts.failed,
            cancelled=counts.cancelled,
            expired=counts.expired,
            gone=counts.gone,
            keep=GROUPS,
            now=now,
        )
    )
    return Closed(is_closed=True, job=job)


def _follow(
    schema: Schema,
    group: int,
    locked: LockedGroup,
    which: Follower,
    counts: GroupCounts,
    *,
    now: datetime | None,
) -> Statement[Enqueued]:
    """Behind the last member: its end is told as theirs are."""
    new = job_of((locked.on_failure if which == "on_failure" else locked.on_success) or "")
    told = EndedGroup(group, locked.name, counts)
    new = with_origin(new, with_group(new.policy.origin, told))
    behind = Membership(group, [locked.members])
    return enqueue(schema, [new], notify=True, members=behind, now=now)


def close_if_over(schema: Schema, group: int, *, now: datetime | None = None) -> Conversation[Closed]:
    """Look at every member, and close the group if all have ended. Hold it in a transaction."""
    rows = yield from ask(show_group(schema, group, now=now))
    if not rows or rows[0].closed_at is not None:
        return Closed()
    counts = yield from counted(schema, group, rows[0].members)
    if isinstance(counts, int):
        return Closed(awaited=counts)
    return (yield from close(schema, group, counts, now=now))


def end(schema: Schema, groups: Sequence[int], *, now: datetime | None = None) -> Statement[int]:
    """End closed groups whose last job has ended, although nothing told of it."""
    return _END.with_params(schema, job_groups=list(groups), keep=GROUPS, now=now)


def ask_to_cancel(
    schema: Schema, group: int, *, reason: str = ON_REQUEST, now: datetime | None = None
) -> Statement[CancelAsked]:
    """Let the leader cancel a group's members. No row: there is no such group."""
    check_ids([group])
    return _CANCEL.with_params(schema, job_group=group, reason=reason, now=now)


def cancel_some(
    schema: Schema, group: int, *, retention: Retention, now: datetime | None = None
) -> Conversation[int]:
    """Cancel the next members of a group that is to be cancelled; how many were looked at, 0 if none is left
    or those that are left are busy.
    """
    rows = yield from ask(_TO_CANCEL.with_params(schema, job_group=group, limit=CANCELLED))
    if not rows:
        return 0
    jobs = sorted({row.job for row in rows if row.job is not None})
    answers: dict[int, str] = {}
    if jobs:
        reason = rows[0].cancel_reason or ON_REQUEST
        answers = yield from cancel(schema, jobs, retention=retention, reason=reason, now=now)
    busy = [row.place for row in rows if row.job is not None and answers.get(row.job) == "busy"]
    up_to = min(busy, default=rows[-1].place + 1)
    yield from ask(_CANCELLED.with_params(schema, job_group=group, place=up_to))
    return up_to - rows[0].place


def prune_groups(schema: Schema, *, limit: int = 10_000, now: datetime | None = None) -> Statement[int]:
    """Delete groups that were kept for long enough, with the places of their members."""
    return _PRUNE.with_params(schema, limit=limit, now=now)


def show_group(schema: Schema, group: int, *, now: datetime | None = None) -> Statement[GroupRow]:
    check_ids([group])
    return _SHOW.with_params(schema, job_group=group, now=now)


def list_groups(
    schema: Schema,
    *,
    states: Sequence[GroupState] | None = None,
    name: str | None = None,
    tags: Sequence[str] | None = None,
    before: int | None = None,
    limit: int,
    now: datetime | None = None,
) -> Statement[GroupRow]:
    check_limit(limit)
    if before is not None:
        check_ids([before])
    return _LIST.with_params(
        schema,
        states=None if states is None else list(states),
        name=name,
        tags=text_array(list(tags)) if tags else None,
        before=before,
        limit=limit,
        now=now,
    )


def member_page(schema: Schema, group: int, *, first: int, last: int, limit: int) -> Statement[MemberRow]:
    """Members from one place on, in the order of the calls that they stand for."""
    return _RESULTS.with_params(schema, job_group=group, first=first, last=last, limit=limit)


def awaited(schema: Schema, group: int, *, limit: int = 5) -> Statement[AwaitedRow]:
    """Members that have not ended."""
    return _AWAITED.with_params(schema, job_group=group, limit=limit)


def counts_of(row: GroupRow) -> GroupCounts:
    return GroupCounts(row.members, row.succeeded, row.failed, row.cancelled, row.expired, row.gone)


def _pages(first: int, members: int) -> Iterator[tuple[int, int]]:
    for start in range(first, members, WALKED):
        yield start, min(start + WALKED, members)
