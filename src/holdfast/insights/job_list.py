"""Lists jobs that match a filter: asks the tables that can hold them, and merges the answers into a page."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Any

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job import check_limit
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.redaction import NONE_KNOWN, Redaction, Redactions
from holdfast.errors import InvalidInput
from holdfast.insights.job_records import JobError, JobPage, JobSummary
from holdfast.insights.page_cursor import cursor_at, read_cursor
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.jobs_listed import (
    ARGS_SHOWN,
    JobDetailRow,
    ListedJob,
    Source,
    job_detail,
    list_jobs,
    sources,
    widest,
)
from holdfast.storage.kinds import kinds, redactions

_FIRST_WINDOW = 2_000
_LEAST_WINDOW = 1_000
_PATIENCE = 0.06
"""Seconds that a page goes on looking for jobs that match: then it says how many it has looked at."""


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
    declared: Redactions = NONE_KNOWN,
    now: datetime | None = None,
) -> Conversation[JobPage]:
    """`declared` is what the caller's own code knows to be secret, beside what workers have stored."""
    job_filter = parse_filter(asked) if isinstance(asked, str) else _checked(asked)
    check_limit(limit)
    before = None if after is None else read_cursor(after)
    if job_filter.arguments:
        yield from _check_not_secret(schema, job_filter, declared)
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
    """Most pages are full after a short look. The others look on from there: as far as they may, or as far as
    they come in time at the pace so far.
    """
    most = widest(job_filter, source, limit)
    window = min(max(_FIRST_WINDOW, limit), most)
    jobs: list[ListedJob] = []
    scanned = 0
    began = monotonic()
    while True:
        left = limit - len(jobs)
        rows = yield from ask(
            list_jobs(schema, job_filter, source=source, before=before, limit=left, window=window, now=now)
        )
        found = _found(rows, window=window, limit=left)
        jobs += found.jobs
        scanned += found.scanned
        took = monotonic() - began
        if found.floor is None or len(jobs) == limit or scanned >= most or took >= _PATIENCE * 0.8:
            return replace(found, jobs=tuple(jobs), scanned=scanned)
        before = found.floor
        window = min(most - scanned, max(int(scanned / took * (_PATIENCE - took)), _LEAST_WINDOW))


@dataclass(frozen=True, slots=True)
class FoundJob:
    """One job: what a list shows of it, what else is stored, and what of it is secret."""

    summary: JobSummary
    row: JobDetailRow
    redaction: Redaction
    now: datetime


def find_job(
    schema: Schema, job: int, declared: Redactions = NONE_KNOWN, *, now: datetime | None = None
) -> Conversation[FoundJob | None]:
    """None: there is no such job (any more)."""
    rows = yield from ask(job_detail(schema, job, now=now))
    if not rows:
        return None
    [row] = rows
    listed = row.listed
    masks = yield from redactions(schema, [listed.kind], declared)
    is_long = listed.args_size > ARGS_SHOWN
    summary = _summary(listed._replace(args=None) if is_long else listed, masks)
    return FoundJob(summary, row, masks.of(listed.kind), listed.now)


def shown_args(text: str | None, redaction: Redaction) -> Any:
    """Stored arguments as people may see them."""
    return None if text is None else redaction.masked(json.loads(text))


def _checked(asked: object) -> JobFilter:
    if not isinstance(asked, JobFilter):
        raise InvalidInput(f'filter is {asked!r}: give a text such as "state:failed kind:pay"')
    return asked


def _check_not_secret(schema: Schema, job_filter: JobFilter, declared: Redactions) -> Conversation[None]:
    """A search would tell what a secret is, one guess at a time. Jobs of kinds that no worker has declared
    are not searched at all.
    """
    rows = yield from ask(kinds(schema, names=list(job_filter.kinds) or None, limit=10_000))
    stored = Redactions({row.name: row.redaction for row in rows})
    for kind, redaction in stored.with_all(declared, stored.known).known.items():
        for match in job_filter.arguments:
            if redaction.is_told_by(match.path, json.loads(match.value)):
                raise InvalidInput(
                    f"args.{'.'.join(match.path)} is secret in {kind}, and cannot be searched for: "
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


def _summary(row: ListedJob, masks: Redactions) -> JobSummary:
    assert row.job is not None  # noqa: S101  # rows without a job were left out
    return JobSummary(
        id=row.job,
        kind=row.kind,
        queue=row.queue,
        state=row.state,
        priority=row.priority,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        args=shown_args(row.args, masks.of(row.kind)),
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
        error=JobError.listed(row.error_code, row.error_type, row.error_message),
        flag=row.flag,
        limit=row.limit_name,
        limit_key=row.limit_key,
    )
