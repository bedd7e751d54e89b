"""`app.operations`: one action on all jobs that match a filter, however many. It survives the process that
began it: the leader goes on with it. Every verb comes twice: awaited, and blocking with `_sync`.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidInput
from holdfast.insights import operation_steps as steps
from holdfast.insights.bulk_actions import ActionName, BulkAction
from holdfast.insights.near_names import ADVICE_FOR_MOVE, check_queue
from holdfast.insights.operation_steps import Operation, Preview, Progress
from holdfast.insights.step_taker import Steps, take, take_blocking
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import operations as stored
from holdfast.storage.audit import PYTHON

R = TypeVar("R")

# Named out here: inside the class, `list` is the verb.
Operations_ = list[Operation]


class Operations:
    def __init__(
        self,
        schema: Schema,
        holder: Holder,
        retention: Callable[[], Retention],
        named: Callable[[], Iterable[str]],
    ) -> None:
        """`named` are the queues that the app's own code names."""
        self._schema = schema
        self._holder = holder
        self._retention = retention
        self._named = named

    async def preview(
        self,
        action: ActionName,
        filter: str | JobFilter,  # noqa: A002  # what it is
        *,
        create: bool = False,
        **parameters: Any,
    ) -> Preview:
        """How many jobs an operation would concern, without doing it."""
        return await self._holder.look(self._preview(action, filter, parameters, create=create), None)

    def preview_sync(
        self,
        action: ActionName,
        filter: str | JobFilter,  # noqa: A002  # what it is
        *,
        create: bool = False,
        **parameters: Any,
    ) -> Preview:
        return self._holder.look_sync(self._preview(action, filter, parameters, create=create), None)

    async def start(
        self,
        action: ActionName,
        filter: str | JobFilter,  # noqa: A002  # what it is
        *,
        create: bool = False,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
        **parameters: Any,
    ) -> Operation:
        """Begin an action on all jobs that match and exist now: cancel, retry, resume, delete, reprioritise
        (`priority=`), reschedule (`when=`) or move (`queue=`, with `create=True` if nothing knows that queue
        yet); with `limit=`, on the newest so many of them. The leader goes on with it within seconds;
        `finish` does so here.
        """
        return await self._holder.hold(
            self._start(action, filter, by, reason, parameters, create=create), conn
        )

    def start_sync(
        self,
        action: ActionName,
        filter: str | JobFilter,  # noqa: A002  # what it is
        *,
        create: bool = False,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
        **parameters: Any,
    ) -> Operation:
        return self._holder.hold_sync(
            self._start(action, filter, by, reason, parameters, create=create), conn
        )

    async def finish(self, operation: int, *, on_progress: Progress | None = None) -> Operation:
        """Go on with an operation until it has ended, here or elsewhere. `on_progress` gets it after each
        batch. If this is interrupted, the leader goes on.
        """
        return await take(self._holder, self._finish(operation, on_progress))

    def finish_sync(self, operation: int, *, on_progress: Progress | None = None) -> Operation:
        return take_blocking(self._holder, self._finish(operation, on_progress))

    async def show(self, operation: int, *, conn: object = None) -> Operation:
        """OperationNotFound if there is none (any more)."""
        return await self._holder.look(steps.show(self._schema, operation), conn)

    def show_sync(self, operation: int, *, conn: object = None) -> Operation:
        return self._holder.look_sync(steps.show(self._schema, operation), conn)

    async def stop(
        self, operation: int, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Operation:
        """Let it do no more after the batch under way. What it did stays done."""
        return await self._holder.hold(steps.stop(self._schema, operation, by=by, reason=reason), conn)

    def stop_sync(
        self, operation: int, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Operation:
        return self._holder.hold_sync(steps.stop(self._schema, operation, by=by, reason=reason), conn)

    async def list(self, *, before: int | None = None, limit: int = 50, conn: object = None) -> Operations_:
        """Operations, newest first; the next page is `before` the id of the last one."""
        return await self._holder.look(self._list(before, limit), conn)

    def list_sync(self, *, before: int | None = None, limit: int = 50, conn: object = None) -> Operations_:
        return self._holder.look_sync(self._list(before, limit), conn)

    def _preview(
        self, action: object, asked: str | JobFilter, parameters: dict[str, Any], *, create: bool
    ) -> Conversation[Preview]:
        chosen, job_filter = BulkAction.of(action, parameters), _read(asked)
        return self._checked(chosen, steps.preview(self._schema, chosen, job_filter), create=create)

    def _start(  # as they come
        self,
        action: object,
        asked: str | JobFilter,
        by: str,
        reason: str | None,
        parameters: dict[str, Any],
        *,
        create: bool,
    ) -> Conversation[Operation]:
        chosen, job_filter = BulkAction.of(action, parameters), _read(asked)
        beginning = steps.begin(self._schema, chosen, job_filter, by=by, reason=reason)
        return self._checked(chosen, beginning, create=create)

    def _checked(self, action: BulkAction, then: Conversation[R], *, create: bool) -> Conversation[R]:
        """Jobs are moved to a queue that something knows, unless the caller says that it is new."""
        if action.name == "move" and not create:
            yield from check_queue(self._schema, action.parameters["queue"], self._named(), ADVICE_FOR_MOVE)
        return (yield from then)

    def _finish(self, operation: int, on_progress: Progress | None) -> Steps[Operation]:
        return steps.finish(self._schema, operation, retention=self._retention, on_progress=on_progress)

    def _list(self, before: int | None, limit: int) -> Conversation[Operations_]:
        rows = yield from ask(stored.operations(self._schema, before=before, limit=limit))
        return [steps.read(row) for row in rows]


def _read(asked: str | JobFilter) -> JobFilter:
    """An empty text may be a variable that was not set: it does not mean every job."""
    job_filter = asked if isinstance(asked, JobFilter) else parse_filter(asked)
    if not job_filter:
        raise InvalidInput('an operation needs a filter, such as "state:failed kind:pay": say which jobs')
    return job_filter
