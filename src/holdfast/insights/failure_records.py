"""What operators see of groups of failures: values for Python, JSON, the command line and pages."""

from dataclasses import dataclass
from datetime import datetime

from holdfast.domain.traceback_frames import Frame
from holdfast.insights.job_records import JobSummary


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with one fingerprint. `pattern` is what their messages have in common; `message`, `job` and
    `run` are of the one that was seen last. `frame` is the function of your own code in which they arise.
    `last_hour`, `last_day` and `last_week` count runs, to within ten minutes.
    """

    fingerprint: str
    type: str | None
    code: str | None
    pattern: str
    message: str
    frame: str | None
    job: int
    run: int
    kinds: tuple[str, ...]
    queues: tuple[str, ...]
    last_hour: int
    last_day: int
    last_week: int
    first_seen_at: datetime
    last_seen_at: datetime

    def __str__(self) -> str:
        return ": ".join(part for part in (self.type, self.pattern or self.code) if part)


@dataclass(frozen=True, slots=True)
class FailurePage:
    """Groups of failures. `next` is the cursor of the page that follows, None on the last one. `now` is the
    database's time, for ages.
    """

    groups: tuple[FailureGroup, ...]
    next: str | None
    now: datetime


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """How many jobs of a group failed for good and can be retried or purged; counted up to 10,000, `has_more`
    says that there are more.
    """

    count: int
    has_more: bool

    def __str__(self) -> str:
        return f"{self.count:,}{'+' if self.has_more else ''}"


@dataclass(frozen=True, slots=True)
class FailureDetail:
    """One group with its dead letters, the latest of them as `jobs`, and a traceback of one run with its
    frames, if one is still stored.
    """

    group: FailureGroup
    dead: DeadLetters
    jobs: tuple[JobSummary, ...]
    traceback: str | None
    frames: tuple[Frame, ...]
    now: datetime
