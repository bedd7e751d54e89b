"""Lists of jobs for operators: a filter becomes one bounded statement."""

import re
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, assert_never, get_args

from holdfast.domain.job import check_ids, check_limit
from holdfast.domain.job_filter import FilterState, JobFilter, NumberBound, TimeBound
from holdfast.domain.states import JobState
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement, StatementFile
from holdfast.storage.statements import statement

WINDOW = 50_000
"""How many jobs one page looks at, when it cannot find those that match by a key."""
PROBED = 5_000
"""The same, when it must ask of each in which table it is, which takes ten times as long."""
ARGS_SHOWN = 2_000
"""Arguments of more bytes are left out of a list."""
_ALL_ARGS = 2**31 - 1

Source = Literal[
    "latest",
    "ids",
    "scheduled",
    "waiting",
    "failed",
    "ended",
    "stopped",
    "running",
    "ready",
    "gated",
    "children",
    "members",
    "fired",
    "group",
]
"""Where a list finds the jobs that it looks at: sql/jobs_list_*.sql."""


class ListedJob(NamedTuple):
    """A row of the list. Without a job it only says how far the list has looked."""

    job: int | None
    kind: str
    queue: str
    priority: int
    state: JobState
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime | None
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: int | None
    is_parked: bool | None
    cancel_requested_at: datetime | None
    deadline_at: datetime | None
    tags: list[str] | None
    parent: int | None
    args: str | None
    args_size: int
    error_type: str | None
    error_message: str | None
    error_code: str | None
    flag: str | None
    limit_name: str | None
    limit_key: str | None
    scanned: int
    last: int | None
    now: datetime


class JobDetailRow(NamedTuple):
    """What a list shows of a job, and what its own rows tell beyond that."""

    listed: ListedJob
    unique_key: str | None
    backoff: str | None
    timeout: timedelta | None
    keep: timedelta | None
    on_lost: str | None
    origin: str | None
    progress: str | None
    has_steps: bool
    groups: list[int]
    unique_until: datetime | None
    debounced_since: datetime | None
    debounced_until: datetime | None
    limits: list[str]
    limit_keys: list[str]
    kept_limits: list[str]

    @property
    def args(self) -> str:
        """All of them: their length is not limited here."""
        return self.listed.args or "{}"


class _DetailReader:
    """Reads the columns of a list, and behind them the others."""

    _fields = (*ListedJob._fields, *JobDetailRow._fields[1:])

    def __call__(self, *columns: Any) -> JobDetailRow:
        size = len(ListedJob._fields)
        return JobDetailRow(ListedJob(*columns[:size]), *columns[size:])


_DETAIL = statement("job_detail", _DetailReader(), is_repeatable=True)
_LISTS: dict[Source, StatementFile[ListedJob]] = {
    source: statement(f"jobs_list_{source}", ListedJob, is_repeatable=True) for source in get_args(Source)
}
# Which field of a filter names the jobs, the narrowest first.
_BY_KEY: dict[str, Source] = {
    "ids": "ids",
    "flows": "children",
    "groups": "members",
    "schedules": "fired",
    "failures": "group",
}
# Which fields of a filter a source answers by itself: what it finds matches them.
_ANSWERED: dict[Source, frozenset[str]] = {
    "latest": frozenset(),
    "ids": frozenset({"ids"}),
    "children": frozenset({"flows"}),
    "members": frozenset({"groups"}),
    "fired": frozenset({"schedules"}),
    "group": frozenset({"failures"}),
    "ready": frozenset({"states", "queues"}),
    "gated": frozenset({"states", "queues"}),
    "running": frozenset({"states", "workers"}),
    "waiting": frozenset({"states"}),
    "failed": frozenset({"states"}),
    "scheduled": frozenset(),
    "stopped": frozenset(),
    "ended": frozenset(),
}
_PROBED_FIELDS = ("states", "attempt", "workers", "finished")


def list_jobs(
    schema: Schema,
    job_filter: JobFilter,
    *,
    source: Source,
    before: int | None = None,
    limit: int,
    window: int,
    now: datetime | None = None,
) -> Statement[ListedJob]:
    """A page of the jobs of one source that match, newest first, among the first `window` that it finds
    `before` a job.
    """
    check_limit(limit)
    return _LISTS[source].with_params(
        schema,
        before=before,
        limit=limit,
        window=window,
        args_limit=ARGS_SHOWN,
        is_final=bool(job_filter.states),
        now=now,
        **_params(job_filter),
    )


def job_detail(schema: Schema, job: int, *, now: datetime | None = None) -> Statement[JobDetailRow]:
    """One job in full; no row when there is no such job any more."""
    check_ids([job])
    return _DETAIL.with_params(
        schema, job=job, limit=1, args_limit=_ALL_ARGS, now=now, **_params(JobFilter())
    )


def sources(job_filter: JobFilter) -> tuple[Source, ...]:
    """The narrowest ways to the jobs that a filter can match, one for each table that holds some of them."""
    for name, source in _BY_KEY.items():
        if getattr(job_filter, name):
            return (source,)
    if job_filter.states:
        return tuple(dict.fromkeys(_source_of(state) for state in job_filter.states))
    if job_filter.workers and not job_filter.finished:
        return ("running", "ended")
    return ("ended",) if job_filter.finished or job_filter.errors else ("latest",)


def _source_of(state: FilterState) -> Source:
    match state:
        case "gated" | "ready" | "waiting" | "running" | "failed":
            return state
        case "scheduled" | "retrying":
            return "scheduled"
        case "succeeded":
            return "ended"
        case "cancelled" | "expired":
            return "stopped"  # by the partial index ledger_stopped
        case "lost":
            return "latest"
        case _:
            assert_never(state)


def widest(job_filter: JobFilter, source: Source, limit: int) -> int:
    """How many jobs a page looks at at most: no more than it shows, if everything that is found matches."""
    asked = {name for name in job_filter.__slots__ if getattr(job_filter, name)}
    if not asked - _ANSWERED[source]:
        return limit
    is_probed = source == "latest" and any(name in asked for name in _PROBED_FIELDS)
    return max(PROBED if is_probed else WINDOW, limit)


def _params(job_filter: JobFilter) -> dict[str, Any]:
    return {
        "ids": list(job_filter.ids) or None,
        "states": list(job_filter.states) or None,
        "kinds": list(job_filter.kinds) or None,
        "queues": list(job_filter.queues) or None,
        "tags": list(job_filter.tags) or None,
        "workers": list(job_filter.workers) or None,
        "flows": list(job_filter.flows) or None,
        "groups": list(job_filter.groups) or None,
        "schedules": list(job_filter.schedules) or None,
        "failures": list(job_filter.failures) or None,
        "error_patterns": [_pattern(text) for text in job_filter.errors] or None,
        "is_error_ascii": all(text.isascii() for text in job_filter.errors),
        "paths": [_array(match.path) for match in job_filter.arguments] or None,
        "values": [match.value for match in job_filter.arguments] or None,
        "is_finished": bool(job_filter.finished),
        **_between("priority", job_filter.priority),
        **_between("attempt", job_filter.attempt),
        **_moments("created", job_filter.created),
        **_moments("finished", job_filter.finished),
    }


def _pattern(text: str) -> str:
    """For LIKE: anything that holds the text."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def _array(path: tuple[str, ...]) -> str:
    """The text of an array of text: arrays in an array must have the same length."""
    quoted = ('"' + step.replace("\\", "\\\\").replace('"', '\\"') + '"' for step in path)
    return "{" + ",".join(quoted) + "}"


def _between(name: str, bounds: tuple[NumberBound, ...]) -> dict[str, int | None]:
    """The smallest and the largest whole number within all bounds; beyond those of a column, the last one."""
    least, most = [], []
    for bound in bounds:
        match bound.comparison:
            case ">" | ">=":
                least.append(bound.number + (bound.comparison == ">"))
            case "<" | "<=":
                most.append(bound.number - (bound.comparison == "<"))
            case "=":
                least.append(bound.number)
                most.append(bound.number)
    limit = 100_000
    return {
        f"{name}_from": min(max(least), limit) if least else None,
        f"{name}_until": min(*most, limit) if most else None,
    }


def _moments(name: str, bounds: tuple[TimeBound, ...]) -> dict[str, datetime | timedelta | None]:
    """`within` and `before` are ages: finished within the last hour, created before the last hour."""
    later = [b.time for b in bounds if b.time is not None and b.comparison in (">", ">=")]
    earlier = [b.time for b in bounds if b.time is not None and b.comparison in ("<", "<=")]
    younger = [b.age for b in bounds if b.age is not None and b.comparison in ("<", "<=")]
    older = [b.age for b in bounds if b.age is not None and b.comparison in (">", ">=")]
    return {
        f"{name}_from": max(later, default=None),
        f"{name}_until": min(earlier, default=None),
        f"{name}_within": min(younger, default=None),
        f"{name}_before": max(older, default=None),
    }
