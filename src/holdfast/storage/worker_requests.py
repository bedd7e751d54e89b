"""What operators ask of a worker: kept until it has ended, and read by it with every heartbeat."""

from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.failure import storable
from holdfast.domain.job import check_name, check_text
from holdfast.domain.steering import Activity, AskedActivity, Standing
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement
from holdfast.storage.workers import check_worker

_TEXT_LIMIT = 1_000


class LockedRequest(NamedTuple):
    """A worker that is about to be asked for something. `asked` is what it was asked to do before."""

    queues: list[str]
    activity: Activity | None
    is_lost: bool
    asked: AskedActivity | None

    @property
    def standing(self) -> Standing:
        return Standing(self.activity, self.asked, self.is_lost)


_LOCK = statement("worker_request_lock", LockedRequest)
_ACTIVITY = statement("worker_request_activity", int)
_SLOTS = statement("worker_request_slots", int)


def lock_request(schema: Schema, worker: int, *, now: datetime | None = None) -> Statement[LockedRequest]:
    check_worker(worker)
    return _LOCK.with_params(schema, worker=worker, now=now)


def ask_to_be(
    schema: Schema,
    worker: int,
    activity: AskedActivity | None,
    *,
    grace: timedelta | None = None,
    by: str,
    reason: str | None,
    now: datetime | None = None,
) -> Statement[int]:
    """None: to work. `grace` is how long running jobs may go on when it stops, in place of its own."""
    check_text("by", by)
    return _ACTIVITY.with_params(
        schema,
        worker=worker,
        activity=activity,
        grace=grace,
        by=storable(by)[:_TEXT_LIMIT],
        reason=None if reason is None else storable(reason)[:_TEXT_LIMIT],
        now=now,
    )


def ask_for_slots(schema: Schema, worker: int, queue: str, slots: int) -> Statement[int]:
    check_name("queue", queue)
    return _SLOTS.with_params(schema, worker=worker, queue=queue, slots=slots)
