"""`app.kinds`: which kinds of jobs workers have declared to this database, and jobs by the name of a kind.
Every verb comes twice: awaited, and blocking with `_sync`. With `conn` it is part of your transaction.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.domain.duration import Length, duration
from holdfast.errors import InvalidInput
from holdfast.insights import kind_actions
from holdfast.insights.kind_actions import EnqueueOptions
from holdfast.insights.kind_records import KindRecord
from holdfast.postgres.conversation import Holder
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import PYTHON
from holdfast.storage.jobs import Enqueued

# Named out here: inside the class, `list` is the verb.
Found = list[KindRecord]


class Kinds:
    """What it knows was stored by workers when they started, so it needs none of their code."""

    def __init__(self, schema: Schema, holder: Holder) -> None:
        self._schema = schema
        self._holder = holder

    async def list(self, *, after: str | None = None, limit: int = 1_000, conn: object = None) -> Found:
        """Kinds by name. `after`: the last name of the page before."""
        return await self._holder.look(kind_actions.list_kinds(self._schema, after=after, limit=limit), conn)

    def list_sync(self, *, after: str | None = None, limit: int = 1_000, conn: object = None) -> Found:
        return self._holder.look_sync(kind_actions.list_kinds(self._schema, after=after, limit=limit), conn)

    async def show(self, kind: str, *, conn: object = None) -> KindRecord:
        """One kind. KindNotFound, with similar names, if no worker has declared it."""
        return await self._holder.look(kind_actions.show_kind(self._schema, kind), conn)

    def show_sync(self, kind: str, *, conn: object = None) -> KindRecord:
        return self._holder.look_sync(kind_actions.show_kind(self._schema, kind), conn)

    async def forget(
        self, kind: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> None:
        """Forget a kind that code no longer has, with what was secret in it: arguments of its jobs are masked
        whole from then on. A worker that knows it stores it again when it starts.
        """
        await self._holder.hold(kind_actions.forget(self._schema, kind, by=by, reason=reason), conn)

    def forget_sync(
        self, kind: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> None:
        self._holder.hold_sync(kind_actions.forget(self._schema, kind, by=by, reason=reason), conn)

    async def enqueue(
        self,
        kind: str,
        args: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        at: datetime | None = None,
        delay: Length | None = None,
        unique: str | None = None,
        debounce: Length | None = None,
        max_wait: Length | None = None,
        unique_for: Length | None = None,
        force: bool = False,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Enqueued:
        """Enqueue a job by the name of its kind, with the kind's own policy, for programs without the code of
        the kind. Answers its `job`, and whether it `is_new`: it is not if an active job has the unique key.
        Arguments are checked by what is stored of the kind. `force`: also a kind that no worker has declared.
        Each call leaves an entry in the audit.
        """
        options = _options(
            queue=queue,
            priority=priority,
            tags=tags,
            at=at,
            delay=delay,
            unique=unique,
            debounce=debounce,
            max_wait=max_wait,
            unique_for=unique_for,
        )
        given = {} if args is None else args
        return await self._holder.hold(
            kind_actions.enqueue_by_name(
                self._schema, kind, given, options, force=force, by=by, reason=reason
            ),
            conn,
        )

    def enqueue_sync(
        self,
        kind: str,
        args: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        at: datetime | None = None,
        delay: Length | None = None,
        unique: str | None = None,
        debounce: Length | None = None,
        max_wait: Length | None = None,
        unique_for: Length | None = None,
        force: bool = False,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Enqueued:
        options = _options(
            queue=queue,
            priority=priority,
            tags=tags,
            at=at,
            delay=delay,
            unique=unique,
            debounce=debounce,
            max_wait=max_wait,
            unique_for=unique_for,
        )
        given = {} if args is None else args
        return self._holder.hold_sync(
            kind_actions.enqueue_by_name(
                self._schema, kind, given, options, force=force, by=by, reason=reason
            ),
            conn,
        )


def _options(
    *,
    queue: str | None,
    priority: int | None,
    tags: Sequence[str] | None,
    at: datetime | None,
    delay: Length | None,
    unique: str | None,
    debounce: Length | None,
    max_wait: Length | None,
    unique_for: Length | None,
) -> EnqueueOptions:
    if isinstance(tags, str):
        raise InvalidInput(f"tags is {tags!r}: give a list of texts")
    return EnqueueOptions(
        queue=queue,
        priority=priority,
        tags=None if tags is None else tuple(tags),
        at=at,
        delay=_length("delay", delay),
        unique=unique,
        debounce=_length("debounce", debounce),
        max_wait=_length("max_wait", max_wait),
        unique_for=_length("unique_for", unique_for),
    )


def _length(what: str, length: Length | None) -> timedelta | None:
    return None if length is None else duration(length, name=what)
