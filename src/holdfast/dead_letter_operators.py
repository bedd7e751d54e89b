"""`app.dead`: how a program lists, resumes, retries and purges dead letters, the jobs that failed for good.
Every verb comes twice: awaited, and blocking with `_sync`. With `conn` it is part of your transaction.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.app_connections import AppConnections
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import operators

_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A job that failed for good, with its arguments as they are stored."""

    id: int
    kind: str
    queue: str
    died_at: datetime
    attempt: int
    args: dict[str, Any]
    error: dict[str, Any] | None


# Named out here: inside the class, `list` is the verb.
DeadJobs = list[DeadJob]


class DeadLetterOperators:
    def __init__(self, schema: Schema, connections: AppConnections) -> None:
        self._schema = schema
        self._connections = connections

    async def list(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        before: DeadJob | None = None,
        limit: int = 100,
        conn: object = None,
    ) -> DeadJobs:
        """Jobs that failed for good, newest first. `before`: the last job of the page before this one."""
        return await self._connections.hold(self._list(queue, kind, before, limit), conn)

    def list_sync(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        before: DeadJob | None = None,
        limit: int = 100,
        conn: object = None,
    ) -> DeadJobs:
        return self._connections.hold_sync(self._list(queue, kind, before, limit), conn)

    async def resume(self, jobs: Sequence[int], *, conn: object = None) -> dict[int, str]:
        """Give each one more attempt, with the state that it saved: resumed, duplicate (an active job holds
        its unique key), unknown or busy.
        """
        return await self._connections.hold(operators.resume_dead(self._schema, jobs), conn)

    def resume_sync(self, jobs: Sequence[int], *, conn: object = None) -> dict[int, str]:
        return self._connections.hold_sync(operators.resume_dead(self._schema, jobs), conn)

    async def retry(self, jobs: Sequence[int], *, conn: object = None) -> dict[int, str]:
        """Run each from its start with all attempts, nothing saved: retried, duplicate, unknown or busy."""
        return await self._connections.hold(operators.retry_dead(self._schema, jobs), conn)

    def retry_sync(self, jobs: Sequence[int], *, conn: object = None) -> dict[int, str]:
        return self._connections.hold_sync(operators.retry_dead(self._schema, jobs), conn)

    async def purge(
        self, jobs: Sequence[int] | None = None, *, before: datetime | None = None, conn: object = None
    ) -> int:
        """Delete these jobs, or those that died before a time, with their history. Returns how many."""
        return await self._connections.hold(self._purge(jobs, before), conn)

    def purge_sync(
        self, jobs: Sequence[int] | None = None, *, before: datetime | None = None, conn: object = None
    ) -> int:
        return self._connections.hold_sync(self._purge(jobs, before), conn)

    def _list(
        self, queue: str | None, kind: str | None, before: object, limit: int
    ) -> Conversation[DeadJobs]:
        if before is not None and not isinstance(before, DeadJob):
            raise InvalidInput(f"before is {before!r}: give the last DeadJob of the previous page")
        last = (
            None
            if before is None
            else operators.DeadRow(
                before.id, before.kind, before.queue, before.died_at, before.attempt, "", None
            )
        )
        rows = yield from ask(
            operators.dead_jobs(self._schema, queue=queue, kind=kind, before=last, limit=limit)
        )
        return [
            DeadJob(
                row.job,
                row.kind,
                row.queue,
                row.died_at,
                row.attempt,
                json.loads(row.args),
                json.loads(row.error) if row.error else None,
            )
            for row in rows
        ]

    def _purge(self, jobs: Sequence[int] | None, before: datetime | None) -> Conversation[int]:
        count = 0
        while True:
            [purged] = yield from ask(
                operators.purge_dead(self._schema, jobs=jobs, before=before, limit=_BATCH)
            )
            count += purged
            if jobs is not None or purged < _BATCH:
                return count
