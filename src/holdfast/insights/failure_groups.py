"""Reads groups of failures: a page of them, one in full."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import get_args

from holdfast.domain.failure import recorded_error
from holdfast.domain.fingerprint import pattern_of
from holdfast.domain.job import check_limit, check_name, check_text
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.redaction import Redactions
from holdfast.domain.traceback_frames import frames_of
from holdfast.errors import FailureNotFound, InvalidInput
from holdfast.insights.failure_records import DeadLetters, FailureDetail, FailureGroup, FailurePage
from holdfast.insights.job_list import list_page
from holdfast.insights.page_cursor import failure_cursor, read_failure_cursor
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage import failures as stored
from holdfast.storage.failures import DEAD_CAP, WINDOW, FailureRow, Order
from holdfast.storage.job_lookup import history

_JOBS = 10


def list_groups(
    schema: Schema,
    *,
    kind: str | None,
    queue: str | None,
    since: timedelta | None,
    order: Order,
    after: str | None,
    limit: int,
    now: datetime | None = None,
) -> Conversation[FailurePage]:
    check_limit(limit)
    for what, name in (("kind", kind), ("queue", queue)):
        if name is not None:
            check_name(what, name)
    match order:
        case "newest":
            return (yield from _newest(schema, kind, queue, since, after, limit, now))
        case "frequent":
            return (yield from _frequent(schema, kind, queue, since, after, limit, now))
        case _:
            raise InvalidInput(f"order is {order!r}: give {' or '.join(get_args(Order))}")


def _newest(  # noqa: PLR0917  # as they come
    schema: Schema,
    kind: str | None,
    queue: str | None,
    since: timedelta | None,
    after: str | None,
    limit: int,
    now: datetime | None,
) -> Conversation[FailurePage]:
    before = None if after is None else _seen(read_failure_cursor(after))
    window = limit if kind is None and queue is None else max(WINDOW, limit)
    rows = yield from ask(
        stored.newest_failures(
            schema, kind=kind, queue=queue, since=since, before=before, limit=limit, window=window, now=now
        )
    )
    found, end = [row for row in rows if row.fingerprint is not None], rows[0]
    next_at: tuple[datetime | None, str | None] = (None, None)
    if len(found) == limit:
        next_at = (found[-1].last_seen_at, found[-1].fingerprint)
    elif end.scanned >= window:
        next_at = (end.last_scanned_at, end.last_scanned)
    seen_at, fingerprint = next_at
    cursor = failure_cursor(seen_at.isoformat(), fingerprint) if seen_at and fingerprint else None
    return FailurePage(tuple(map(read_group, found)), cursor, end.now)


def _frequent(  # noqa: PLR0917  # as they come
    schema: Schema,
    kind: str | None,
    queue: str | None,
    since: timedelta | None,
    after: str | None,
    limit: int,
    now: datetime | None,
) -> Conversation[FailurePage]:
    before = None if after is None else _counted(read_failure_cursor(after))
    rows = yield from ask(
        stored.frequent_failures(
            schema, kind=kind, queue=queue, since=since, before=before, limit=limit, now=now
        )
    )
    found = [row for row in rows if row.fingerprint is not None]
    cursor = None
    if len(found) == limit and found[-1].fingerprint:
        cursor = failure_cursor(found[-1].runs, found[-1].fingerprint)
    return FailurePage(tuple(map(read_group, found)), cursor, rows[0].now)


def show_group(
    schema: Schema, fingerprint: str, declared: Redactions, *, now: datetime | None = None
) -> Conversation[FailureDetail]:
    """`declared` is what the caller's own code knows to be secret, beside what workers have stored."""
    row = yield from _found(schema, fingerprint, now)
    dead = yield from count(schema, fingerprint)
    page = yield from list_page(
        schema, JobFilter(failures=(fingerprint,)), after=None, limit=_JOBS, declared=declared
    )
    traceback = yield from _traceback(schema, fingerprint, [row.job, *(job.id for job in page.jobs[:1])])
    return FailureDetail(
        group=read_group(row),
        dead=dead,
        jobs=page.jobs,
        traceback=traceback,
        frames=frames_of(traceback) if traceback else (),
        now=row.now,
    )


def count(schema: Schema, fingerprint: str) -> Conversation[DeadLetters]:
    _check(fingerprint)
    [found] = yield from ask(stored.count_dead(schema, fingerprint))
    return DeadLetters(min(found, DEAD_CAP), has_more=found > DEAD_CAP)


def dead_letters_of(schema: Schema, fingerprint: str) -> Conversation[DeadLetters]:
    """Raises FailureNotFound if there are neither dead letters nor their group."""
    dead = yield from count(schema, fingerprint)
    if not dead.count:
        yield from _found(schema, fingerprint, None)
    return dead


def read_group(row: FailureRow) -> FailureGroup:
    message = row.message or ""
    return FailureGroup(
        fingerprint=row.fingerprint or "",
        type=row.type,
        code=row.code,
        pattern=pattern_of(message),
        message=message,
        frame=row.frame,
        job=row.job,
        run=row.run,
        kinds=tuple(row.kinds) or (row.kind,),
        queues=tuple(row.queues) or (row.queue,),
        last_hour=row.last_hour,
        last_day=row.last_day,
        last_week=row.last_week,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
    )


def _found(schema: Schema, fingerprint: str, now: datetime | None) -> Conversation[FailureRow]:
    _check(fingerprint)
    rows = yield from ask(stored.failure_group(schema, fingerprint, now=now))
    if not rows:
        raise FailureNotFound(fingerprint)
    return rows[0]


def _traceback(schema: Schema, fingerprint: str, jobs: Sequence[int]) -> Conversation[str | None]:
    """Of the last run in one of these jobs that failed so."""
    for job in dict.fromkeys(jobs):
        for entry in reversed((yield from ask(history(schema, job)))):
            error = recorded_error(entry.error)
            traceback = error.get("traceback")
            if error.get("fingerprint") == fingerprint and isinstance(traceback, str):
                return traceback
    return None


def _check(fingerprint: object) -> None:
    check_text("fingerprint", fingerprint)
    if not fingerprint:
        raise InvalidInput("fingerprint is empty: give one that app.failures.list() shows")


def _seen(cursor: tuple[str | int, str]) -> tuple[datetime, str]:
    at, fingerprint = cursor
    try:
        return datetime.fromisoformat(str(at)), fingerprint
    except ValueError:
        raise _wrong_cursor() from None


def _counted(cursor: tuple[str | int, str]) -> tuple[int, str]:
    runs, fingerprint = cursor
    if not isinstance(runs, int):
        raise _wrong_cursor()
    return runs, fingerprint


def _wrong_cursor() -> InvalidInput:
    return InvalidInput("after belongs to a list in another order: give the same order, or begin again")
