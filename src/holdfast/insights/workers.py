"""`app.workers`: which workers there are, whether they live, and what they run. Every verb comes twice:
awaited, and blocking with `_sync`. With `conn` it is part of your transaction.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from holdfast.errors import InvalidInput, WorkerNotFound
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
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
class WorkerRecord:
    """A worker process. `used` of its `slots` run jobs; `running` are those that began first: three in a
    list, up to 1,000 of one worker. It is `silent` if its heartbeat is overdue, and `lost` once the leader
    has given its jobs to others. `now` is the database's time, for ages.
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
    used: int
    running: tuple[RunningJob, ...]
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    lost_at: datetime | None
    now: datetime

    @property
    def beat_age(self) -> timedelta:
        """How long ago its last heartbeat was."""
        return self.now - self.beat_at


# Named out here: inside the class, `list` is the verb.
Found = list[WorkerRecord]


class Workers:
    """Reads only: a worker is stopped by its process, not from here."""

    def __init__(self, schema: Schema, holder: Holder) -> None:
        self._schema = schema
        self._holder = holder

    async def list(
        self, *, after: WorkerRecord | None = None, limit: int = 1_000, conn: object = None
    ) -> Found:
        """Workers by id, oldest first, those that were lost within the last hour too. `after`: the last
        worker of the page before.
        """
        return await self._holder.hold(_list(self._schema, after, limit), conn)

    def list_sync(
        self, *, after: WorkerRecord | None = None, limit: int = 1_000, conn: object = None
    ) -> Found:
        return self._holder.hold_sync(_list(self._schema, after, limit), conn)

    async def show(self, worker: int, *, conn: object = None) -> WorkerRecord:
        """One worker, with all that it runs. WorkerNotFound if there is none (any more)."""
        return await self._holder.hold(_show(self._schema, worker), conn)

    def show_sync(self, worker: int, *, conn: object = None) -> WorkerRecord:
        return self._holder.hold_sync(_show(self._schema, worker), conn)


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
        used=row.used,
        running=tuple(RunningJob(*each) for each in running),
        started_at=row.started_at,
        beat_at=row.beat_at,
        expires_at=row.expires_at,
        lost_at=row.lost_at,
        now=row.now,
    )


def _state(row: WorkerRow) -> WorkerState:
    if row.lost_at is not None:
        return "lost"
    return "live" if row.expires_at > row.now else "silent"
