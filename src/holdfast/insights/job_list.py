"""Lists jobs that match a filter: asks the tables that can hold them, and merges the answers into a page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job import check_limit
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.redaction import Redaction
from holdfast.errors import InvalidInput
from holdfast.insights.job_records import JobError, JobPage, JobSummary
from holdfast.insights.page_cursor import cursor_at, read_cursor
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.jobs_listed import ListedJob, Source, list_jobs, sources, widest
from holdfast.storage.kinds import kinds, redactions

_FIRST_WINDOW = 2_000
NOTHING_DECLARED: Mapping[str, Redaction] = {}


@dataclass(frozen=True, slots=True)
class _Found:
    """What one source has found. Below `floor` it has not looked yet; None: it has seen everything."""

    jobs: tuple[ListedJob, ...]
    scanned: int
    floor: int | None
    now: datetime


def list_page(
    schema: Schema,
    asked: str | JobFilter,
    *,
    after: str | None,
    limit: int,
    declared: Mapping[str, Redaction] = NOTHING_DECLARED,
    now: datetime | None = None,
) -> Conversation[JobPage]:
    """`declared` is what the caller's own code knows to be secret, beside what workers have stored."""
    job_filter = parse_filter(asked) if isinstance(asked, str) else _checked(asked)
    check_limit(limit)
    before = None if after is None else read_cursor(after)
    if job_filter.arguments:
        yield from _check_not_secret(schema, job_filter)
    found = []
    for source in sources(job_filter):
        seen = yield from _look(schema, job_filter, source, before=before, limit=limit, now=now)
        found.append(seen)
    rows, floor = _merged(found, limit)
    masks = yield from redactions(schema, {row.kind for row in rows}, declared)
    is_cut_short = floor is not None and len(rows) < limit
    return JobPage(
        tuple(_summary(row, masks) for row in rows),
        None if floor is None else cursor_at(floor),
        sum(each.scanned for each in found) if is_cut_short else None,
        found[0].now,
    )


def _look(
    schema: Schema,
    job_filter: JobFilter,
    source: Source,
    *,
    before: int | None,
    limit: int,
    now: datetime | None,
) -> Conversation[_Found]:
    """Most pages are full after a short look; only the others look as far as they may."""
    most = widest(job_filter, source, limit)
    window = min(max(_FIRST_WINDOW, limit), most)
    while True:
        rows = yield from ask(
            list_jobs(schema, job_filter, source=source, before=before, limit=limit, window=window, now=now)
        )
        found = _found(rows, window=window, limit=limit)
        if found.floor is None or len(found.jobs) == limit or window == most:
            return found
        window = most


def shown_args(text: str | None, redaction: Redaction) -> Any:
    """Stored arguments as people may see them."""
    return None if text is None else redaction.masked(json.loads(text))


def _checked(asked: object) -> JobFilter:
    if not isinstance(asked, JobFilter):
        raise InvalidInput(f'filter is {asked!r}: give a text such as "state:failed kind:pay"')
    return asked


def _check_not_secret(schema: Schema, job_filter: JobFilter) -> Conversation[None]:
    """A search would tell what a secret is, one guess at a time."""
    names = list(job_filter.kinds) or None
    for row in (yield from ask(kinds(schema, names=names, limit=10_000))):
        for match in job_filter.arguments:
            if row.redaction.covers(match.path):
                raise InvalidInput(
                    f"args.{'.'.join(match.path)} is secret in {row.name}, and cannot be searched for: "
                    "leave it out, or name kinds in which it is not"
                )


def _found(rows: Sequence[ListedJob], *, window: int, limit: int) -> _Found:
    jobs = tuple(row for row in rows if row.job is not None)
    scanned, last = rows[0].scanned, rows[0].last
    floor = jobs[-1].job if len(jobs) == limit else last if scanned >= window else None
    return _Found(jobs, scanned, floor, rows[0].now)


def _merged(found: Sequence[_Found], limit: int) -> tuple[list[ListedJob], int | None]:
    """The newest jobs of all sources, and where the next page begins. A source that has not looked at older
    jobs yet keeps those of the others from being shown before its own.
    """
    floor = max((each.floor for each in found if each.floor is not None), default=None)
    jobs = {row.job: row for each in found for row in each.jobs if row.job is not None}
    shown = [jobs[job] for job in sorted(jobs, reverse=True) if floor is None or job >= floor][:limit]
    if len(shown) == limit and len(jobs) > limit:
        floor = shown[-1].job
    return shown, floor


def _summary(row: ListedJob, masks: Mapping[str, Redaction]) -> JobSummary:
    assert row.job is not None  # noqa: S101  # rows without a job were left out
    has_error = row.error_code is not None or row.error_message is not None
    return JobSummary(
        id=row.job,
        kind=row.kind,
        queue=row.queue,
        state=row.state,
        priority=row.priority,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        args=shown_args(row.args, masks[row.kind]),
        args_size=row.args_size,
        tags=tuple(row.tags or ()),
        parent=row.parent,
        worker=row.worker,
        created_at=row.created_at,
        run_at=row.run_at,
        ready_at=row.ready_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        deadline_at=row.deadline_at,
        cancel_requested_at=row.cancel_requested_at,
        is_parked=bool(row.is_parked),
        error=JobError(row.error_code, row.error_type, row.error_message) if has_error else None,
        flag=row.flag,
    )
