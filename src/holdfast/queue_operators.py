"""`app.queues`: how a program pauses, resumes and lists queues. Every verb comes twice: awaited, and blocking
with `_sync`. With `conn` it is part of your transaction.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.app_connections import AppConnections
from holdfast.domain.duration import duration
from holdfast.errors import InvalidInput, QueueNotFound
from holdfast.insights.job_actions import PYTHON
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import operators
from holdfast.storage.audit import put_audit
from holdfast.worker.queue_choice import near

Until = datetime | timedelta | str


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue that is paused, that a live worker serves, or that has jobs.

    `waiting` jobs are ready to run; they are counted up to 10,000, `has_more_waiting` says that there are
    more. `oldest_age` is how long ago the oldest of them was enqueued. `workers` serve it now.
    """

    name: str
    workers: int
    paused_at: datetime | None
    paused_until: datetime | None
    note: str | None
    waiting: int = 0
    has_more_waiting: bool = False
    running: int = 0
    oldest_age: timedelta | None = None

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None

    @property
    def waiting_text(self) -> str:
        """For people: `17`, or `10,000+`."""
        return f"{self.waiting:,}{'+' if self.has_more_waiting else ''}"


# Named out here: inside the class, `list` is the verb.
Queues = list[QueueStatus]


class QueueOperators:
    """`named` are the queues that the app's own code names: known, also before their first job."""

    def __init__(
        self, schema: Schema, connections: AppConnections, named: Callable[[], Iterable[str]]
    ) -> None:
        self._schema = schema
        self._connections = connections
        self._named = named

    async def pause(
        self,
        queue: str,
        *,
        note: str | None = None,
        until: Until | None = None,
        create: bool = False,
        by: str = PYTHON,
        conn: object = None,
    ) -> QueueStatus:
        """Stop all workers from claiming jobs of a queue: until it is resumed, until a time, or for a length
        such as "2h". Running jobs continue. Pausing again changes note and until. QueueNotFound if nothing
        knows a queue of that name, unless you pass `create`. `by` is who does it, for the audit.
        """
        return await self._connections.hold(self._pause(queue, note, until, create=create, by=by), conn)

    def pause_sync(
        self,
        queue: str,
        *,
        note: str | None = None,
        until: Until | None = None,
        create: bool = False,
        by: str = PYTHON,
        conn: object = None,
    ) -> QueueStatus:
        return self._connections.hold_sync(self._pause(queue, note, until, create=create, by=by), conn)

    async def resume(self, queue: str, *, by: str = PYTHON, conn: object = None) -> bool:
        """Let workers claim its jobs again; returns whether it was paused. QueueNotFound if it is unknown."""
        return await self._connections.hold(self._resume(queue, by), conn)

    def resume_sync(self, queue: str, *, by: str = PYTHON, conn: object = None) -> bool:
        return self._connections.hold_sync(self._resume(queue, by), conn)

    async def list(
        self, *, after: QueueStatus | None = None, limit: int = 1_000, conn: object = None
    ) -> Queues:
        """Queues that are paused, are served or have jobs, by name. `after`: the last queue of the page
        before this one. A queue with only delayed jobs is listed if one of them is among the next 1,000 due.
        """
        return await self._connections.hold(self._list(after, limit), conn)

    def list_sync(
        self, *, after: QueueStatus | None = None, limit: int = 1_000, conn: object = None
    ) -> Queues:
        return self._connections.hold_sync(self._list(after, limit), conn)

    def _pause(
        self, queue: str, note: str | None, until: Until | None, *, create: bool, by: str
    ) -> Conversation[QueueStatus]:
        moment = until if isinstance(until, datetime) else None
        length = None if until is None or moment is not None else duration(until, name="until")
        pausing = operators.pause(self._schema, queue=queue, note=note, until=moment, length=length)
        if not create:
            yield from self._check_known(queue, "pass create=True to pause it before its first job")
        paused = yield from ask(pausing)
        if not paused:
            raise InvalidInput(f"until is {until}, which has passed: give a future time, or a length")
        yield from self._remember("pause queue", queue, by, note)
        [row] = yield from ask(operators.queues(self._schema, name=queue))
        _, at, end, why = paused[0]
        return _status(row._replace(paused_at=at, paused_until=end, note=why))

    def _resume(self, queue: str, by: str) -> Conversation[bool]:
        if (yield from ask(operators.resume(self._schema, queue=queue))):
            yield from self._remember("resume queue", queue, by, None)
            return True
        yield from self._check_known(queue, "see app.queues.list() for those that there are")
        return False

    def _remember(self, action: str, queue: str, by: str, reason: str | None) -> Conversation[None]:
        entry = put_audit(self._schema, action=action, by=by, target=queue, reason=reason, counts={})
        yield from ask(entry)

    def _check_known(self, queue: str, advice: str) -> Conversation[None]:
        named = set(self._named())
        if queue in named:
            return
        [found] = yield from ask(operators.queue_known(self._schema, queue))
        if not found.is_known:
            raise QueueNotFound(queue, near=near(queue, named.union(found.names)), advice=advice)

    def _list(self, after: object, limit: int) -> Conversation[Queues]:
        if after is not None and not isinstance(after, QueueStatus):
            raise InvalidInput(f"after is {after!r}: give the last QueueStatus of the previous page")
        last = None if after is None else after.name
        rows = yield from ask(operators.queues(self._schema, after=last, limit=limit))
        return [_status(row) for row in rows]


def _status(row: operators.QueueRow) -> QueueStatus:
    return QueueStatus(
        row.queue,
        row.workers,
        row.paused_at,
        row.paused_until,
        row.note,
        waiting=min(row.waiting, operators.QUEUE_CAP),
        has_more_waiting=row.waiting > operators.QUEUE_CAP,
        running=row.running,
        oldest_age=row.oldest_age,
    )
