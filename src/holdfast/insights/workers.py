"""`app.workers`: which workers there are, whether they live, what they run, and what they are asked to do.
Every verb comes twice: awaited, and blocking with `_sync`. With `conn` it is part of your transaction.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from holdfast.domain.duration import Length, duration
from holdfast.domain.steering import Activity, AskedActivity
from holdfast.errors import InvalidInput, WorkerNotFound
from holdfast.insights import worker_actions
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import PYTHON
from holdfast.storage.workers import WorkerRow, check_worker, workers

WorkerState = Literal["live", "silent", "lost"]

_RUNS_IN_A_LIST = 3
_RUNS = 1_000


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that a worker runs now. `is_cancelling`: it was asked to stop."""

    job: int
    kind: str
    attempt: int
    started_at: datetime
    is_cancelling: bool


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """What an operator asks of a worker: to be quiet, to stop, or to `hurry`, which is to stop and give its
    jobs back at once. `grace` is how long running jobs may go on when it stops; None for the worker's own.
    """

    activity: AskedActivity
    asked_at: datetime
    by: str | None
    reason: str | None
    grace: timedelta | None


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker process. `used` of its `slots` run jobs; `running` are those that began first: three in a
    list, up to 1,000 of one worker. It is `silent` if its heartbeat is overdue, and `lost` once the leader
    has given its jobs to others. `now` is the database's time, for ages.

    `activity` is what it said with its last heartbeat: working, quiet or stopping; None of an older release.
    `request` and `asked_slots` are what operators ask of it: a request that its activity does not show yet
    has not reached it. `queue_slots` has its slots by queue.
    """

    id: int
    host: str
    pid: int
    version: str
    state: WorkerState
    is_leader: bool
    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    slots: int
    queue_slots: dict[str, int]
    used: int
    running: tuple[RunningJob, ...]
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    lost_at: datetime | None
    activity: Activity | None
    request: WorkerRequest | None
    asked_slots: dict[str, int]
    now: datetime

    @property
    def beat_age(self) -> timedelta:
        """How long ago its last heartbeat was."""
        return self.now - self.beat_at


# Named out here: inside the class, `list` is the verb.
Found = list[WorkerRecord]


class Workers:
    """A worker hears within a moment what it is asked; where notifications do not arrive, with its next
    heartbeat.
    """

    def __init__(self, schema: Schema, holder: Holder) -> None:
        self._schema = schema
        self._holder = holder

    async def list(
        self, *, after: WorkerRecord | None = None, limit: int = 1_000, conn: object = None
    ) -> Found:
        """Workers by id, oldest first, those that were lost within the last hour too. `after`: the last
        worker of the page before.
        """
        return await self._holder.look(_list(self._schema, after, limit), conn)

    def list_sync(
        self, *, after: WorkerRecord | None = None, limit: int = 1_000, conn: object = None
    ) -> Found:
        return self._holder.look_sync(_list(self._schema, after, limit), conn)

    async def show(self, worker: int, *, conn: object = None) -> WorkerRecord:
        """One worker, with all that it runs. WorkerNotFound if there is none (any more)."""
        return await self._holder.look(_show(self._schema, worker), conn)

    def show_sync(self, worker: int, *, conn: object = None) -> WorkerRecord:
        return self._holder.look_sync(_show(self._schema, worker), conn)

    async def quiet(
        self, worker: int, *, by: str = PYTHON, reason: str | None = None, conn: object = None
    ) -> WorkerRecord:
        """Let it claim no jobs until it is resumed; those that run go on. Once its `activity` is quiet, no
        job begins there. A process that is started in its place works.
        """
        asking = worker_actions.quieten(self._schema, worker, by=by, reason=reason)
        return await self._holder.hold(_then_show(self._schema, worker, asking), conn)

    def quiet_sync(
        self, worker: int, *, by: str = PYTHON, reason: str | None = None, conn: object = None
    ) -> WorkerRecord:
        asking = worker_actions.quieten(self._schema, worker, by=by, reason=reason)
        return self._holder.hold_sync(_then_show(self._schema, worker, asking), conn)

    async def resume(
        self, worker: int, *, by: str = PYTHON, reason: str | None = None, conn: object = None
    ) -> bool:
        """Let a quiet worker claim jobs again; returns whether it was quiet, or asked to be."""
        return await self._holder.hold(
            worker_actions.resume(self._schema, worker, by=by, reason=reason), conn
        )

    def resume_sync(
        self, worker: int, *, by: str = PYTHON, reason: str | None = None, conn: object = None
    ) -> bool:
        return self._holder.hold_sync(worker_actions.resume(self._schema, worker, by=by, reason=reason), conn)

    async def stop(
        self,
        worker: int,
        *,
        grace: Length | None = None,
        now: bool = False,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> WorkerRecord:
        """Let it stop as SIGTERM does: it claims nothing, waits for running jobs for its own grace or for
        `grace`, and then gives back what still runs. With `now` it gives everything back at once, as the
        second signal does; that may follow a stop that takes too long. Its supervisor does not replace it.
        """
        asking = self._stop(worker, grace, now=now, by=by, reason=reason)
        return await self._holder.hold(_then_show(self._schema, worker, asking), conn)

    def stop_sync(
        self,
        worker: int,
        *,
        grace: Length | None = None,
        now: bool = False,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> WorkerRecord:
        asking = self._stop(worker, grace, now=now, by=by, reason=reason)
        return self._holder.hold_sync(_then_show(self._schema, worker, asking), conn)

    async def slots(
        self,
        worker: int,
        queue: str,
        slots: int,
        *,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> WorkerRecord:
        """Let it run so many jobs of a queue at once. If more run now, they run to their ends, and none of
        the queue begins until then. A process that is started in its place has its own number.
        """
        asking = worker_actions.change_slots(self._schema, worker, queue, slots, by=by, reason=reason)
        return await self._holder.hold(_then_show(self._schema, worker, asking), conn)

    def slots_sync(
        self,
        worker: int,
        queue: str,
        slots: int,
        *,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
    ) -> WorkerRecord:
        asking = worker_actions.change_slots(self._schema, worker, queue, slots, by=by, reason=reason)
        return self._holder.hold_sync(_then_show(self._schema, worker, asking), conn)

    def _stop(
        self, worker: int, grace: Length | None, *, now: bool, by: str, reason: str | None
    ) -> Conversation[None]:
        length = None if grace is None else duration(grace, name="grace")
        return worker_actions.stop(self._schema, worker, grace=length, now=now, by=by, reason=reason)


def _list(schema: Schema, after: object, limit: int) -> Conversation[Found]:
    if after is not None and not isinstance(after, WorkerRecord):
        raise InvalidInput(f"after is {after!r}: give the last WorkerRecord of the previous page")
    last = None if after is None else after.id
    rows = yield from ask(workers(schema, after=last, limit=limit, runs=_RUNS_IN_A_LIST))
    return [_record(row) for row in rows]


def _show(schema: Schema, worker: int) -> Conversation[WorkerRecord]:
    check_worker(worker)
    rows = yield from ask(workers(schema, worker=worker, limit=1, runs=_RUNS))
    if not rows:
        raise WorkerNotFound(worker)
    return _record(rows[0])


def _then_show(schema: Schema, worker: int, asking: Conversation[None]) -> Conversation[WorkerRecord]:
    yield from asking
    return (yield from _show(schema, worker))


def _record(row: WorkerRow) -> WorkerRecord:
    running = zip(row.jobs, row.job_kinds, row.attempts, row.since, row.are_cancelling, strict=True)
    return WorkerRecord(
        id=row.id,
        host=row.host,
        pid=row.pid,
        version=row.version,
        state=_state(row),
        is_leader=row.is_leader,
        queues=tuple(row.queues),
        kinds=tuple(row.kinds),
        slots=row.slots,
        queue_slots=dict(zip(row.queues, row.queue_slots or (), strict=False)),
        used=row.used,
        running=tuple(RunningJob(*each) for each in running),
        started_at=row.started_at,
        beat_at=row.beat_at,
        expires_at=row.expires_at,
        lost_at=row.lost_at,
        activity=row.activity,
        request=_request(row),
        asked_slots=json.loads(row.asked_slots),
        now=row.now,
    )


def _request(row: WorkerRow) -> WorkerRequest | None:
    if row.asked_activity is None or row.asked_at is None:
        return None
    return WorkerRequest(row.asked_activity, row.asked_at, row.asked_by, row.asked_reason, row.asked_grace)


def _state(row: WorkerRow) -> WorkerState:
    if row.lost_at is not None:
        return "lost"
    return "live" if row.expires_at > row.now else "silent"
