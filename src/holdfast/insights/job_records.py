"""What operators see of a job: values for Python, JSON, the command line and pages, with secrets masked."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from holdfast.domain.states import JobState, RunOutcome
from holdfast.domain.traceback_frames import Frame
from holdfast.insights.log_records import LogLine

_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class JobError:
    """What went wrong in the last run."""

    code: str | None
    type: str | None
    message: str | None

    @classmethod
    def listed(cls, code: str | None, error_type: str | None, message: str | None) -> "JobError | None":
        """As a list shows it. The statements read one character more than is shown, to tell that there are
        more.
        """
        if code is None and message is None:
            return None
        is_long = message is not None and len(message) > _MESSAGE
        return cls(code, error_type, f"{message[: _MESSAGE - 1]}…" if message and is_long else message)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.type, self.message or self.code) if part)


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One job in a list. `args` has a mask in place of secrets; it is the mask where the kind is unknown, and
    None where they are longer than a list shows. `is_parked`: ready, but set aside until a worker can take
    it. `limit` and `limit_key`: of a gated job, where it waits for a permit.
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
    limit: str | None = None
    limit_key: str | None = None

    @property
    def __job_id__(self) -> int:
        return self.id

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
    `now` is the database's time, for ages. `hints`: if nothing matches, the names in the filter that nothing
    is called, with those that may have been meant.
    """

    jobs: tuple[JobSummary, ...]
    next: str | None
    searched: int | None
    now: datetime
    hints: tuple[str, ...] = ()


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


Reason = Literal[
    "unknown_id",
    "schema_behind",
    "queue_paused",
    "no_worker",
    "queue_unserved",
    "kind_unknown",
    "no_worker_for_both",
    "workers_quiet",
    "workers_stopping",
    "set_aside",
    "slots_busy",
    "next_in_line",
    "limit_reached",
    "limit_closed",
    "deadline_passed",
    "scheduled",
    "debounced",
    "superseded",
    "retry",
    "does_not_fit",
    "no_leader",
    "waits_for_event",
    "waits_for_child",
    "running",
    "cancelling",
    "worker_lost",
    "ended",
    "lost",
]


@dataclass(frozen=True, slots=True)
class Explanation:
    """`reason` is for programs. `sentence` says why, `advice` what to do about it; empty if there is nothing
    to do.
    """

    job: int
    reason: Reason
    sentence: str
    advice: str

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".strip()


@dataclass(frozen=True, slots=True)
class JobLimit:
    """A limit that a job has to pass, with its key there, if it has one. `permit`: `held`, or `awaited` at
    the gate; None while it needs none, because it has ended, waits for its time or for an earlier limit.
    """

    name: str
    key: str | None
    permit: Literal["held", "awaited"] | None


@dataclass(frozen=True, slots=True)
class JobDetail:
    """One job in full. `summary` is what a list shows of it; `args` and `result` have a mask in place of
    secrets, and so have its `headers`. `schedule`, `scope` and `plan_time` are set if a schedule fired it.
    `is_flow`: it has steps, which `app.flows.show` tells. `groups` are those that it is a member of or
    follows, `limits` those that it has to pass, in this order. `logs` are its newest kept log lines,
    `app.jobs.logs` has the others. `explanation` says why it is not running, as `app.jobs.explain` does.
    `unique_until`: it keeps its unique key until then, even if it ends before. `debounced_since`: the first
    enqueue that its debounce put off; `debounced_until`: it is put off no longer than until then.
    """

    summary: JobSummary
    args: Any
    headers: dict[str, str]
    result: Any
    progress: Any
    runs: tuple[JobRun, ...]
    unique_key: str | None
    unique_until: datetime | None
    debounced_since: datetime | None
    debounced_until: datetime | None
    timeout: timedelta | None
    keep: timedelta | None
    schedule: str | None
    scope: str | None
    plan_time: datetime | None
    is_flow: bool
    groups: tuple[int, ...]
    limits: tuple[JobLimit, ...]
    children: tuple[JobSummary, ...]
    has_more_children: bool
    logs: tuple[LogLine, ...]
    has_more_logs: bool
    explanation: Explanation
    now: datetime
