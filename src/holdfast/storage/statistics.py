"""Figures over time: new jobs are counted, minutes and hours are read and pruned; `fold` fills them."""

from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.retention import HOURS, MINUTES
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement


class EnqueueTop(NamedTuple):
    """New jobs have been counted up to `mark`; `top` is the last id that was given to any job."""

    mark: int
    top: int


class FigureRow(NamedTuple):
    """Of a piece of time, of a queue or of a kind. What it tells is in sql_parts/figures.sql."""

    at: datetime | None
    queue: str | None
    kind: str | None
    what: str
    runs: int
    started: int
    took: timedelta | None
    waited: timedelta | None
    buckets: list[int] | None
    counts: list[int] | None


class OverviewRow(NamedTuple):
    now: datetime
    ready: int
    gated: int
    scheduled: int
    waiting: int
    running: int
    failed: int
    live_workers: int
    leader: int | None
    overdue: timedelta | None
    silent: list[int]
    silent_hosts: list[str]
    silent_pids: list[int]
    silent_since: list[datetime]
    are_lost: list[bool]


class ScheduleRow(NamedTuple):
    """A schedule as an overview shows it."""

    name: str
    kind: str
    queue: str
    is_paused: bool
    missed: int
    last_missed_at: datetime | None
    error: str | None
    next_at: datetime | None
    now: datetime


STATE_CAP = 10_000
_AN_HOUR = timedelta(hours=1)

_TOP = statement("enqueue_top", EnqueueTop, is_repeatable=True)
_OPEN = statement("enqueue_open", frozenset[str], is_repeatable=True)
_COUNT = statement("enqueue_count", int)
_PRUNE = statement("prune_statistics", int)
_OF_MINUTES = statement("figures_of_minutes", FigureRow, is_repeatable=True)
_OF_HOURS = statement("figures_of_hours", FigureRow, is_repeatable=True)
_OVERVIEW = statement("overview", OverviewRow, is_repeatable=True)
_OVERVIEW_PLANS = statement("overview_plans", ScheduleRow, is_repeatable=True)


def enqueue_top(schema: Schema) -> Statement[EnqueueTop]:
    return _TOP.with_params(schema)


def enqueue_open(schema: Schema) -> Statement[frozenset[str]]:
    """The open transactions that have drawn an id for a job."""
    return _OPEN.with_params(schema)


def count_enqueued(schema: Schema, *, mark: int, top: int, limit: int = 50_000) -> Statement[int]:
    """Count the jobs between both as enqueued; answers how many, or no row if another leader did."""
    return _COUNT.with_params(schema, mark=mark, top=top, limit=limit)


def prune_statistics(
    schema: Schema,
    *,
    keep_minutes: timedelta = MINUTES,
    keep_hours: timedelta = HOURS,
    limit: int = 10_000,
    now: datetime | None = None,
) -> Statement[int]:
    """Delete hours of long ago, and what began in minutes of long ago."""
    return _PRUNE.with_params(schema, keep_minutes=keep_minutes, keep_hours=keep_hours, limit=limit, now=now)


def figures(
    schema: Schema,
    *,
    since: timedelta,
    until: datetime | None = None,
    resolution: timedelta,
    queue: str | None = None,
    kind: str | None = None,
    has_spreads: bool = True,
    now: datetime | None = None,
) -> Statement[FigureRow]:
    """Figures over time, from hours if the resolution is one of hours; with or without how long runs waited
    and took.
    """
    source = _OF_MINUTES if resolution < _AN_HOUR else _OF_HOURS
    return source.with_params(
        schema,
        since=since,
        until=until,
        resolution=resolution,
        queue=queue,
        kind=kind,
        has_spreads=has_spreads,
        now=now,
    )


def overview(
    schema: Schema, *, cap: int = STATE_CAP + 1, now: datetime | None = None
) -> Statement[OverviewRow]:
    """Counts of jobs by state, workers and the leader."""
    return _OVERVIEW.with_params(schema, cap=cap, now=now)


def overview_plans(schema: Schema, *, now: datetime | None = None) -> Statement[ScheduleRow]:
    """Schedules with what they missed in the last day, and when they fire next."""
    return _OVERVIEW_PLANS.with_params(schema, now=now)
