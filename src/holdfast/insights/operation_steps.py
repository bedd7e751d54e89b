"""The steps of an operation: preview what it would do, begin it, advance it by a batch, stop it."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.retention import Retention
from holdfast.errors import OperationNotFound
from holdfast.insights.bulk_actions import BulkAction
from holdfast.insights.job_list import list_page
from holdfast.insights.page_cursor import cursor_at
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import operations as stored
from holdfast.storage.audit import put_audit

BATCH = 200
PREVIEWED = 10_000

OperationState = Literal["running", "done", "stopped"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An action on all jobs that match a filter. `seen` is how many it has looked at, `counts` how many of
    them got which answer.
    """

    id: int
    action: str
    parameters: Mapping[str, Any]
    filter: str
    by: str
    reason: str | None
    state: OperationState
    seen: int
    counts: Mapping[str, int]
    created_at: datetime
    advanced_at: datetime
    ended_at: datetime | None

    @property
    def is_running(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True, slots=True)
class Preview:
    """What an operation would do: how many of the jobs that match it could concern, and of the others how
    many are in which state. Counted up to 10,000; `is_capped`: there are more.
    """

    eligible: int
    skipped: Mapping[str, int]
    is_capped: bool


def preview(schema: Schema, action: BulkAction, job_filter: JobFilter) -> Conversation[Preview]:
    eligible, skipped, after = 0, Counter[str](), None
    while eligible + skipped.total() < PREVIEWED:
        page = yield from list_page(schema, job_filter, after=after, limit=1_000)
        for job in page.jobs:
            if action.can_concern(job.state):
                eligible += 1
            else:
                skipped[job.state] += 1
        after = page.next
        if after is None:
            return Preview(eligible, dict(skipped), is_capped=False)
    return Preview(eligible, dict(skipped), is_capped=True)


def begin(
    schema: Schema, action: BulkAction, job_filter: JobFilter, *, by: str, reason: str | None
) -> Conversation[Operation]:
    newest = yield from ask(stored.last_job(schema))
    [number] = yield from ask(
        stored.start(
            schema,
            action=action.name,
            job_filter=str(job_filter),
            by=by,
            reason=reason,
            cursor=cursor_at(newest[0] + 1 if newest else 1),
            parameters=action.parameters,
        )
    )
    return (yield from show(schema, number))


def advance(
    schema: Schema,
    *,
    operation: int | None,
    retention: Retention,
    idle: timedelta | None = None,
    now: datetime | None = None,
) -> Conversation[int | None]:
    """One batch, in one transaction; answers the operation that was advanced. None: there was nothing to do,
    or another process was at it.
    """
    taken = yield from ask(stored.take(schema, operation=operation, idle=idle, now=now))
    if not taken:
        return None
    [held] = taken
    job_filter = parse_filter(held.filter)
    action = BulkAction.of(held.action, json.loads(held.parameters))
    page = yield from list_page(schema, job_filter, after=held.cursor, limit=BATCH)
    counts = Counter[str](json.loads(held.counts))
    ids = [job.id for job in page.jobs]
    if ids:
        answers = yield from action.verb(job_filter, retention, held.reason)(schema, ids)
        counts.update(answers.values())
    seen = held.seen + len(ids)
    yield from ask(stored.advance(schema, held.id, cursor=page.next, counts=counts, seen=seen, now=now))
    if page.next is None:
        yield from _remember(schema, held, action, counts)
    return held.id


def stop(schema: Schema, operation: int, *, by: str) -> Conversation[Operation]:
    was_running = yield from ask(stored.stop(schema, operation))
    found = yield from show(schema, operation)
    if was_running:
        target = f"operation {operation}: {found.action} on {found.filter}"
        yield from ask(
            put_audit(schema, action="stop", by=by, target=target, reason=None, counts=found.counts)
        )
    return found


def show(schema: Schema, operation: int) -> Conversation[Operation]:
    rows = yield from ask(stored.operations(schema, operation=operation, limit=1))
    if not rows:
        raise OperationNotFound(operation)
    return read(rows[0])


def read(row: stored.OperationRow) -> Operation:
    state: OperationState = (
        "done" if row.state == "done" else "stopped" if row.state == "stopped" else "running"
    )
    return Operation(
        row.id,
        row.action,
        json.loads(row.parameters),
        row.filter,
        row.by,
        row.reason,
        state,
        row.seen,
        json.loads(row.counts),
        row.created_at,
        row.advanced_at,
        row.ended_at,
    )


def _remember(
    schema: Schema, held: stored.TakenOperation, action: BulkAction, counts: Mapping[str, int]
) -> Conversation[None]:
    yield from ask(
        put_audit(
            schema, action=str(action), by=held.by, target=held.filter, reason=held.reason, counts=counts
        )
    )
