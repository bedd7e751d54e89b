"""The steps of an operation: preview what it would do, begin it, advance it by a batch, stop it."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.retention import Retention
from holdfast.errors import OperationNotFound
from holdfast.insights.bulk_actions import BulkAction
from holdfast.insights.job_list import list_page
from holdfast.insights.near_names import hints_for
from holdfast.insights.page_cursor import cursor_at
from holdfast.insights.step_taker import Steps, Wait
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import operations as stored
from holdfast.storage.audit import check_signed, put_audit

BATCH = 200
PREVIEWED = 10_000
_ANOTHER_HAS_IT = Wait(0.2)

OperationState = Literal["running", "done", "stopped"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An action on all jobs that match a filter. `seen` is how many it has looked at, `counts` how many of
    them got which answer. `now` is the database's time, for ages.
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
    now: datetime = field(compare=False)

    @property
    def is_running(self) -> bool:
        return self.state == "running"


Progress = Callable[[Operation], None]


@dataclass(frozen=True, slots=True)
class Preview:
    """What an operation would do: how many of the jobs that match it could concern, and of the others how
    many are in which state; `rule` says why it skips them. Counted up to 10,000; `is_capped`: there are more.
    `hints`: if nothing matches, as a page of jobs has them.
    """

    eligible: int
    skipped: Mapping[str, int]
    is_capped: bool
    rule: str
    hints: tuple[str, ...] = ()


def preview(schema: Schema, action: BulkAction, job_filter: JobFilter) -> Conversation[Preview]:
    eligible, skipped, after = 0, Counter[str](), None
    most = PREVIEWED if action.limit is None else min(PREVIEWED, action.limit)
    while (seen := eligible + skipped.total()) < most:
        page = yield from list_page(schema, job_filter, after=after, limit=min(1_000, most - seen))
        for job in page.jobs:
            if action.can_concern(job.state):
                eligible += 1
            else:
                skipped[job.state] += 1
        after = page.next
        if after is None:
            is_empty = not eligible and not skipped
            hints = (yield from hints_for(schema, job_filter)) if is_empty else ()
            return Preview(eligible, dict(skipped), is_capped=False, rule=action.rule, hints=hints)
    return Preview(eligible, dict(skipped), is_capped=most != action.limit, rule=action.rule)


def finish(
    schema: Schema, operation: int, *, retention: Callable[[], Retention], on_progress: Progress | None = None
) -> Steps[Operation]:
    """Go on until it has ended, here or elsewhere."""
    while True:
        found: Operation = yield show(schema, operation)
        if not found.is_running:
            return found
        if on_progress is not None:
            on_progress(found)
        if (yield advance(schema, operation=operation, retention=retention())) is None:
            yield _ANOTHER_HAS_IT


def begin(
    schema: Schema, action: BulkAction, job_filter: JobFilter, *, by: str, reason: str | None
) -> Conversation[Operation]:
    check_signed(by, reason)
    newest = yield from ask(stored.last_job(schema))
    [number] = yield from ask(
        stored.start(
            schema,
            action=action.name,
            job_filter=str(job_filter),
            by=by,
            reason=reason,
            cursor=cursor_at(newest[0] + 1 if newest else 1),
            parameters=action.stored(),
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
    left = BATCH if action.limit is None else min(BATCH, action.limit - held.seen)
    page = yield from list_page(schema, job_filter, after=held.cursor, limit=left)
    counts = Counter[str](json.loads(held.counts))
    ids = [job.id for job in page.jobs]
    if ids:
        answers = yield from action.verb(job_filter, retention, held.reason)(schema, ids)
        counts.update(answers.values())
    seen = held.seen + len(ids)
    cursor = None if action.limit is not None and seen >= action.limit else page.next
    yield from ask(stored.advance(schema, held.id, cursor=cursor, counts=counts, seen=seen, now=now))
    if cursor is None:
        yield from _remember(schema, held, action, counts)
    return held.id


def stop(schema: Schema, operation: int, *, by: str, reason: str | None) -> Conversation[Operation]:
    check_signed(by, reason)
    was_running = yield from ask(stored.stop(schema, operation))
    found = yield from show(schema, operation)
    if was_running:
        target = f"operation {operation}: {found.action} on {found.filter}"
        yield from ask(
            put_audit(schema, action="stop", by=by, target=target, reason=reason, counts=found.counts)
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
        row.now,
    )


def _remember(
    schema: Schema, held: stored.TakenOperation, action: BulkAction, counts: Mapping[str, int]
) -> Conversation[None]:
    yield from ask(
        put_audit(
            schema, action=str(action), by=held.by, target=held.filter, reason=held.reason, counts=counts
        )
    )
