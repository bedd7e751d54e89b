"""What has happened to jobs lately: for whoever follows them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.states import RunOutcome
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement, StatementFile
from holdfast.storage.statements import statement


class TailRun(NamedTuple):
    """A run; without `outcome` it is under way. `kept`: for how long its job is kept after its end."""

    job: int
    run: int
    attempt: int
    worker: int | None
    started_at: datetime | None
    finished_at: datetime | None
    outcome: RunOutcome | None
    is_final: bool
    flag: str | None
    error_type: str | None
    error_message: str | None
    error_code: str | None
    kept: timedelta | None


class LogNews(NamedTuple):
    job: int
    run: int
    first: int
    lines: str


_KEEPS: StatementFile[timedelta] = statement("tail_keeps", lambda keep: keep, is_repeatable=True)
_ENDS = statement("tail_ends", int, is_repeatable=True)
_RUNS = statement("tail_runs", TailRun, is_repeatable=True)
_LOGS = statement("log_news", LogNews, is_repeatable=True)


def kept_for(schema: Schema) -> Statement[timedelta]:
    """The lengths of time for which kinds say that their jobs are kept."""
    return _KEEPS.with_params(schema)


def ended_since(
    schema: Schema, since: datetime, *, keeps: Sequence[timedelta], limit: int, now: datetime | None = None
) -> Statement[int]:
    """The jobs that have ended since then, of those that are kept for one of these lengths."""
    return _ENDS.with_params(schema, since=since, keeps=list(keeps), limit=limit, now=now)


def runs_since(schema: Schema, jobs: Mapping[int, int | None], since: datetime | None) -> Statement[TailRun]:
    """The runs of these jobs. Of a job that runs, its worker is given."""
    return _RUNS.with_params(schema, jobs=list(jobs), workers=list(jobs.values()), since=since)


def lines_since(
    schema: Schema, places: Mapping[int, tuple[int, int]], since: datetime | None, *, limit: int
) -> Statement[LogNews]:
    """The lines of these jobs, of each behind a run and number."""
    return _LOGS.with_params(
        schema,
        jobs=list(places),
        runs=[run for run, _ in places.values()],
        lasts=[number for _, number in places.values()],
        since=since,
        limit=limit,
    )
