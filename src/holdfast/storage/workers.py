"""Workers and their leader: who is alive, who is lost, who leads."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.duration import LONGEST
from holdfast.domain.job import check_limit, is_whole
from holdfast.domain.steering import Activity, AskedActivity
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

LEASE = timedelta(seconds=30)
LEAD = timedelta(seconds=10)
_IDS = range(-(2**63), 2**63)


class Lead(NamedTuple):
    """Leadership was taken or kept, and whether the lease of any worker has run out."""

    term: int
    is_any_silent: bool


class WorkerRow(NamedTuple):
    """A worker, and the jobs that it has run for longest: one element of each array for a job."""

    id: int
    host: str
    pid: int
    version: str
    queues: list[str]
    kinds: list[str]
    slots: int
    queue_slots: list[int] | None
    activity: Activity | None
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    lost_at: datetime | None
    is_leader: bool
    used: int
    jobs: list[int]
    job_kinds: list[str]
    attempts: list[int]
    since: list[datetime]
    are_cancelling: list[bool]
    asked_activity: AskedActivity | None
    asked_at: datetime | None
    asked_by: str | None
    asked_reason: str | None
    asked_grace: timedelta | None
    asked_slots: str
    now: datetime


_LIST = statement("worker_list", WorkerRow, is_repeatable=True)
_REGISTER = statement("register", int)
_RETIRE_LOCK = statement("retire_lock", int)
_RETIRE = statement("retire", bool, is_repeatable=True)
_MARK_LOST = statement("mark_lost", int)
_FORGET = statement("forget_workers", int)
_LEAD = statement("lead", Lead, is_repeatable=True)
_STEP_DOWN = statement("step_down", int)


def lease_length(lease: timedelta) -> timedelta:
    """A lease of any length that means something; the longest is as good as for ever."""
    if lease <= timedelta():
        raise InvalidInput(f"lease is {lease}: it must be above 0")
    return min(lease, LONGEST)


def register(
    schema: Schema,
    *,
    host: str,
    pid: int,
    version: str,
    queues: Sequence[str],
    kinds: Sequence[str],
    slots: int,
    queue_slots: Sequence[int] | None = None,
    hears: Mapping[str, Sequence[str]] | None = None,
    activity: Activity | None = "working",
    previous: int | None = None,
    lease: timedelta = LEASE,
    now: datetime | None = None,
) -> Statement[int]:
    """Begin to be a worker; answers its id. `queue_slots` has a number for each queue. `hears` are the kinds
    that have a hook for each outcome. `previous` is the id under which it worked before it was lost.
    """
    return _REGISTER.with_params(
        schema,
        host=host,
        pid=pid,
        version=version,
        queues=list(queues),
        kinds=list(kinds),
        hears=None
        if hears is None
        else json.dumps({outcome: list(those) for outcome, those in hears.items()}),
        slots=slots,
        queue_slots=None if queue_slots is None else list(queue_slots),
        activity=activity,
        previous=previous,
        lease=lease_length(lease),
        now=now,
    )


def workers(
    schema: Schema,
    *,
    worker: int | None = None,
    after: int | None = None,
    limit: int = 1_000,
    runs: int = 3,
    now: datetime | None = None,
) -> Statement[WorkerRow]:
    """A page of workers by id, or one of them, each with up to `runs` of the jobs that it runs."""
    for given in (worker, after):
        if given is not None:
            check_worker(given)
    check_limit(limit)
    check_limit(runs)
    return _LIST.with_params(schema, worker=worker, after=after, limit=limit, runs=runs, now=now)


def check_worker(worker: object) -> None:
    if not is_whole(worker) or worker not in _IDS:
        raise InvalidInput(f"{worker!r} is not the id of a worker: give an integer")


def retire(schema: Schema, *, worker: int, now: datetime | None = None) -> Conversation[bool]:
    """Take a worker out. Runs that it still holds are left to the rescuer; answers whether it held none.

    Hold it in a transaction: the lock lasts from one statement to the next.
    """
    yield from ask(_RETIRE_LOCK.with_params(schema, worker=worker))
    [is_gone] = yield from ask(_RETIRE.with_params(schema, worker=worker, now=now))
    return is_gone


def mark_lost(schema: Schema, *, now: datetime | None = None) -> Statement[int]:
    """Mark workers whose lease has run out; answers their ids."""
    return _MARK_LOST.with_params(schema, now=now)


def forget_lost(schema: Schema, *, keep: timedelta, now: datetime | None = None) -> Statement[int]:
    """Delete workers that were lost long ago and hold nothing; answers their ids."""
    return _FORGET.with_params(schema, keep=keep, now=now)


def lead(
    schema: Schema, *, worker: int, lease: timedelta = LEAD, now: datetime | None = None
) -> Statement[Lead]:
    """Become or stay leader; answers nothing while another worker leads."""
    return _LEAD.with_params(schema, worker=worker, lease=lease_length(lease), now=now)


def step_down(schema: Schema, *, worker: int, now: datetime | None = None) -> Statement[int]:
    """Stop leading, so that another leads at once."""
    return _STEP_DOWN.with_params(schema, worker=worker, now=now)
