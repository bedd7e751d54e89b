"""`app.operations`: one action on all jobs that match a filter, however many. It survives the process that
began it: the leader goes on with it. Every verb comes twice: awaited, and blocking with `_sync`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidInput
from holdfast.insights import operation_steps as steps
from holdfast.insights.bulk_actions import ActionName, BulkAction
from holdfast.insights.job_actions import PYTHON
from holdfast.insights.operation_steps import Operation, Preview
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import operations as stored

# Named out here: inside the class, `list` is the verb.
Operations_ = list[Operation]
Progress = Callable[[Operation], None]

_ANOTHER_HAS_IT_SECONDS = 0.2


class Operations:
    def __init__(self, schema: Schema, holder: Holder, retention: Callable[[], Retention]) -> None:
        self._schema = schema
        self._holder = holder
        self._retention = retention

    async def preview(
        self,
        action: ActionName,
        filter: str | JobFilter,  # noqa: A002  # what it is
        **parameters: Any,
    ) -> Preview:
        """How many jobs an operation would concern, without doing it."""
        return await self._holder.hold(self._preview(action, filter, parameters), None)

    def preview_sync(
        self,
        action: ActionName,
        filter: str | JobFilter,  # noqa: A002  # what it is
        **parameters: Any,
    ) -> Preview:
        return self._holder.hold_sync(self._preview(action, filter, parameters), None)

    async def start(
        self,
        action: ActionName,
        filter: str | JobFilter,  # noqa: A002  # what it is
        *,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
        **parameters: Any,
    ) -> Operation:
        """Begin an action on all jobs that match and exist now: cancel, retry, resume, delete, reprioritise
        (`priority=`), reschedule (`when=`) or move (`queue=`). The leader goes on with it within seconds;
        `finish` does so here.
        """
        return await self._holder.hold(self._start(action, filter, by, reason, parameters), conn)

    def start_sync(
        self,
        action: ActionName,
        filter: str | JobFilter,  # noqa: A002  # what it is
        *,
        by: str = PYTHON,
        reason: str | None = None,
        conn: object = None,
        **parameters: Any,
    ) -> Operation:
        return self._holder.hold_sync(self._start(action, filter, by, reason, parameters), conn)

    async def finish(self, operation: int, *, on_progress: Progress | None = None) -> Operation:
        """Go on with an operation until it has ended, here or elsewhere. `on_progress` gets it after each
        batch. If this is interrupted, the leader goes on.
        """
        while (found := await self.show(operation)).is_running:
            if on_progress is not None:
                on_progress(found)
            if await self._holder.hold(self._advance(operation), None) is None:
                await asyncio.sleep(_ANOTHER_HAS_IT_SECONDS)
        return found

    def finish_sync(self, operation: int, *, on_progress: Progress | None = None) -> Operation:
        while (found := self.show_sync(operation)).is_running:
            if on_progress is not None:
                on_progress(found)
            if self._holder.hold_sync(self._advance(operation), None) is None:
                time.sleep(_ANOTHER_HAS_IT_SECONDS)
        return found

    async def show(self, operation: int, *, conn: object = None) -> Operation:
        """OperationNotFound if there is none (any more)."""
        return await self._holder.hold(steps.show(self._schema, operation), conn)

    def show_sync(self, operation: int, *, conn: object = None) -> Operation:
        return self._holder.hold_sync(steps.show(self._schema, operation), conn)

    async def stop(self, operation: int, *, by: str = PYTHON, conn: object = None) -> Operation:
        """Let it do no more after the batch under way. What it did stays done."""
        return await self._holder.hold(steps.stop(self._schema, operation, by=by), conn)

    def stop_sync(self, operation: int, *, by: str = PYTHON, conn: object = None) -> Operation:
        return self._holder.hold_sync(steps.stop(self._schema, operation, by=by), conn)

    async def list(self, *, before: int | None = None, limit: int = 50, conn: object = None) -> Operations_:
        """Operations, newest first; the next page is `before` the id of the last one."""
        return await self._holder.hold(self._list(before, limit), conn)

    def list_sync(self, *, before: int | None = None, limit: int = 50, conn: object = None) -> Operations_:
        return self._holder.hold_sync(self._list(before, limit), conn)

    def _preview(
        self, action: object, asked: str | JobFilter, parameters: dict[str, Any]
    ) -> Conversation[Preview]:
        return steps.preview(self._schema, BulkAction.of(action, parameters), _read(asked))

    def _start(
        self, action: object, asked: str | JobFilter, by: str, reason: str | None, parameters: dict[str, Any]
    ) -> Conversation[Operation]:
        chosen = BulkAction.of(action, parameters)
        return steps.begin(self._schema, chosen, _read(asked), by=by, reason=reason)

    def _advance(self, operation: int) -> Conversation[int | None]:
        return steps.advance(self._schema, operation=operation, retention=self._retention())

    def _list(self, before: int | None, limit: int) -> Conversation[Operations_]:
        rows = yield from ask(stored.operations(self._schema, before=before, limit=limit))
        return [steps.read(row) for row in rows]


def _read(asked: str | JobFilter) -> JobFilter:
    """An empty text may be a variable that was not set: it does not mean every job."""
    job_filter = asked if isinstance(asked, JobFilter) else parse_filter(asked)
    if not job_filter:
        raise InvalidInput('an operation needs a filter, such as "state:failed kind:pay": say which jobs')
    return job_filter
