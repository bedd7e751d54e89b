"""`app.audit`: who did what to jobs, kinds and operations. Every verb comes twice: awaited, and blocking with
`_sync`. With `conn` it is part of your transaction.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from holdfast.insights.page_cursor import cursor_at, read_cursor
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import WINDOW, AuditRow, audit


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action of an operator. `counts`: how many of its targets got which answer."""

    id: int
    at: datetime
    action: str
    by: str
    target: str
    reason: str | None
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, newest first. `next` is the cursor of the page that follows, None on the last one. `searched`:
    that many entries were looked at before this page ended, though it could hold more; the next one goes on.
    `now` is the database's time, for ages.
    """

    entries: tuple[AuditEntry, ...]
    next: str | None
    searched: int | None
    now: datetime


class Audit:
    """Reads only: each action writes its own entry, and the leader forgets entries after a year."""

    def __init__(self, schema: Schema, holder: Holder) -> None:
        self._schema = schema
        self._holder = holder

    async def list(
        self,
        *,
        by: str | None = None,
        action: str | None = None,
        after: str | None = None,
        limit: int = 50,
        conn: object = None,
    ) -> AuditPage:
        """A page of what operators did, newest first: all, or what one of them did, or one action. "move"
        finds "move to bulk" too. `after`: the `next` of the page before.
        """
        return await self._holder.look(
            audit_page(self._schema, by=by, action=action, after=after, limit=limit), conn
        )

    def list_sync(
        self,
        *,
        by: str | None = None,
        action: str | None = None,
        after: str | None = None,
        limit: int = 50,
        conn: object = None,
    ) -> AuditPage:
        return self._holder.look_sync(
            audit_page(self._schema, by=by, action=action, after=after, limit=limit), conn
        )


def audit_page(
    schema: Schema,
    *,
    by: str | None,
    action: str | None,
    after: str | None,
    limit: int,
    window: int = WINDOW,
) -> Conversation[AuditPage]:
    before = None if after is None else read_cursor(after)
    rows = yield from ask(audit(schema, by=by, action=action, before=before, limit=limit, window=window))
    entries = tuple(_entry(row) for row in rows if row.id is not None)
    looked, last, now = rows[0].looked, rows[0].last, rows[0].now
    is_full, has_seen_all = len(entries) == limit, looked < window
    floor = entries[-1].id if is_full else None if has_seen_all else last
    if is_full and has_seen_all and floor == last:
        floor = None
    return AuditPage(
        entries,
        None if floor is None else cursor_at(floor),
        looked if floor is not None and not is_full else None,
        now,
    )


def _entry(row: AuditRow) -> AuditEntry:
    assert row.id is not None  # noqa: S101  # rows without an entry were left out
    return AuditEntry(row.id, row.at, row.action, row.by, row.target, row.reason, json.loads(row.counts))
