"""What somebody who follows jobs is told: that a run started, what it logs, how it ended."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.domain.states import RunOutcome
from holdfast.insights.job_records import JobError, JobSummary
from holdfast.insights.log_records import LogLine


@dataclass(frozen=True, slots=True)
class RunStarted:
    """`time` is the database's."""

    time: datetime
    job: JobSummary
    run: int
    attempt: int
    worker: int | None


@dataclass(frozen=True, slots=True)
class RunLogged:
    """A line that is kept with the job. `time` is the worker's."""

    time: datetime
    job: JobSummary
    line: LogLine


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run, or a job that had none, has ended. `is_final`: and with it the job. `took` is None for a job
    that ended without a run.
    """

    time: datetime
    job: JobSummary
    run: int
    attempt: int
    worker: int | None
    outcome: RunOutcome
    is_final: bool
    took: timedelta | None
    error: JobError | None
    flag: str | None


TailEvent = RunStarted | RunLogged | RunEnded


@dataclass(frozen=True, slots=True)
class TailMark:
    """How far somebody has followed: pass it back, and do not read it."""

    since: datetime | None = None
    keeps: frozenset[timedelta] = frozenset()
    started: frozenset[int] = field(default=frozenset(), repr=False)
    ended: frozenset[int] = field(default=frozenset(), repr=False)
    # The jobs to look at again, each with its last line, or None if none is known.
    places: tuple[tuple[int, tuple[int, int] | None], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class TailPage:
    """What has happened since the last look, oldest first. `is_cut`: more has happened than one look can
    tell. `is_over`: all jobs that the filter names by their ids have ended, and nothing more will come.
    """

    events: tuple[TailEvent, ...]
    next: TailMark
    is_cut: bool
    is_over: bool
    now: datetime
