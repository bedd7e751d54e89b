"""`app.queues`: how a program pauses, resumes and lists queues. Every verb comes twice: awaited, and blocking
with `_sync`. With `conn` it is part of your transaction.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from holdfast.domain.duration import duration
from holdfast.errors import InvalidInput
from holdfast.insights.near_names import check_queue
from holdfast.insights.queue_records import QueueStatus, status_of
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import operators
from holdfast.storage.audit import PYTHON, check_signed, put_audit

Until = datetime | timedelta | str


# Named out here: inside the class, `list` is the verb.
Found = list[QueueStatus]


class Queues:
    """`named` are the queues that the app's own code names: known, also before their first job."""

    def __init__(self, schema: Schema, holder: Holder, named: Callable[[], Iterable[str]]) -> None:
        self._schema = schema
        self._holder = holder
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
        return await self._holder.hold(self._pause(queue, note, until, create=create, by=by), conn)

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
        return self._holder.hold_sync(self._pause(queue, note, until, create=create, by=by), conn)

    async def resume(
        self, queue: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> bool:
        """Let workers claim its jobs again; returns whether it was paused. QueueNotFound if it is unknown."""
        return await self._holder.hold(self._resume(queue, by, reason), conn)

    def resume_sync(
        self, queue: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> bool:
        return self._holder.hold_sync(self._resume(queue, by, reason), conn)

    async def list(
        self, *, after: QueueStatus | None = None, limit: int = 1_000, conn: object = None
    ) -> Found:
        """Queues that are paused, are served or have jobs, by name. `after`: the last queue of the page
        before this one. A queue with only delayed jobs is listed if one of them is among the next 1,000 due.
        """
        return await self._holder.look(self._list(after, limit), conn)

    def list_sync(
        self, *, after: QueueStatus | None = None, limit: int = 1_000, conn: object = None
    ) -> Found:
        return self._holder.look_sync(self._list(after, limit), conn)

    def _pause(
        self, queue: str, note: str | None, until: Until | None, *, create: bool, by: str
    ) -> Conversation[QueueStatus]:
        check_signed(by, note)
        moment = until if isinstance(until, datetime) else None
        length = None if until is None or moment is not None else duration(until, name="until")
        pausing = operators.pause(self._schema, queue=queue, note=note, until=moment, length=length)
        if not create:
            advice = "pass create=True to pause it before its first job"
            yield from check_queue(self._schema, queue, self._named(), advice)
        paused = yield from ask(pausing)
        if not paused:
            raise InvalidInput(f"until is {until}, which has passed: give a future time, or a length")
        yield from self._remember("pause queue", queue, by, note)
        [row] = yield from ask(operators.queues(self._schema, name=queue))
        _, at, end, why = paused[0]
        return status_of(row._replace(paused_at=at, paused_until=end, note=why))

    def _resume(self, queue: str, by: str, reason: str | None) -> Conversation[bool]:
        check_signed(by, reason)
        if (yield from ask(operators.resume(self._schema, queue=queue))):
            yield from self._remember("resume queue", queue, by, reason)
            return True
        advice = "see app.queues.list() for those that there are"
        yield from check_queue(self._schema, queue, self._named(), advice)
        return False

    def _remember(self, action: str, queue: str, by: str, reason: str | None) -> Conversation[None]:
        entry = put_audit(self._schema, action=action, by=by, target=queue, reason=reason, counts={})
        yield from ask(entry)

    def _list(self, after: object, limit: int) -> Conversation[Found]:
        if after is not None and not isinstance(after, QueueStatus):
            raise InvalidInput(f"after is {after!r}: give the last QueueStatus of the previous page")
        last = None if after is None else after.name
        rows = yield from ask(operators.queues(self._schema, after=last, limit=limit))
        return [status_of(row) for row in rows]
