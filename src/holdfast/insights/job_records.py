"""What operators see of a job: values for Python, JSON, the command line and pages, with secrets masked."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from holdfast.domain.states import JobState, RunOutcome
from holdfast.domain.traceback_frames import Frame


@dataclass(frozen=True, slots=True)
class JobError:
    """What went wrong in the last run."""

    code: str | None
    type: str | None
    message: str | None

    def __str__(self) -> str:
        return ": ".join(part for part in (self.type, self.message or self.code) if part)


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job in a list. `args` has a mask in place of secrets; it is the mask where the kind is unknown, and
    None where they are longer than a list shows. `is_parked`: ready, but set aside until a worker can take
    it.
    """

    id: int
    kind: str
    queue: str
    state: JobState
    priority: int
    attempt: int
    max_attempts: int
    args: Any
    args_size: int
    tags: tuple[str, ...]
    parent: int | None
    worker: int | None
    created_at: datetime
    run_at: datetime | None
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    deadline_at: datetime | None
    cancel_requested_at: datetime | None
    is_parked: bool
    error: JobError | None
    flag: str | None

    @property
    def is_retrying(self) -> bool:
        """Whether it waits for its next attempt after one that failed or was put off."""
        return self.state == "scheduled" and self.attempt > 0

    @property
    def ran_for(self) -> timedelta | None:
        """How long its last run took, if the job has ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first. `next` is the cursor of the page that follows, None on the last one. `searched`:
    that many jobs were looked at before this page ended, though it could hold more; the next one goes on.
    `now` is the database's time, for ages.
    """

    jobs: tuple[JobSummary, ...]
    next: str | None
    searched: int | None
    now: datetime


@dataclass(frozen=True, slots=True)
class RunError:
    """What a run failed with. `frames` are read from the traceback, with those of your own code marked;
    `causes` are the errors behind it, as text. `fingerprint` names the group of failures it belongs to.
    """

    code: str
    type: str | None
    message: str
    traceback: str | None
    causes: tuple[str, ...]
    frames: tuple[Frame, ...]
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run that has ended, or the end of a job that had none. `waited` counts from when it was due."""

    run: int
    attempt: int
    outcome: RunOutcome
    is_final: bool
    worker: int | None
    ready_at: datetime | None
    started_at: datetime | None
    finished_at: datetime
    error: RunError | None
    flag: str | None

    @property
    def waited(self) -> timedelta | None:
        if self.ready_at is None or self.started_at is None:
            return None
        return self.started_at - self.ready_at

    @property
    def took(self) -> timedelta | None:
        return None if self.started_at is None else self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class JobDetail:
    """One job in full. `summary` is what a list shows of it; `args` and `result` have a mask in place of
    secrets. `schedule`, `scope` and `plan_time` are set if a schedule fired it. `is_flow`: it has steps,
    which `app.flows.show` tells.
    """

    summary: JobSummary
    args: Any
    result: Any
    progress: Any
    runs: tuple[JobRun, ...]
    unique_key: str | None
    timeout: timedelta | None
    keep: timedelta | None
    schedule: str | None
    scope: str | None
    plan_time: datetime | None
    is_flow: bool
    children: tuple[JobSummary, ...]
    has_more_children: bool
    now: datetime
