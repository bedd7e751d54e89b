"""What operators see of the log lines that are kept with jobs."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a handler logged. `number` counts the lines of its run from 1; `dropped`: that many lines
    just before it were too many to keep. `time` is the worker's.
    """

    run: int
    number: int
    time: datetime
    level: str
    logger: str
    message: str
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines of one job, oldest first. `next` is where the lines that follow begin: pass it as `after`, also
    later, when the job has logged more. `has_more`: there are such lines already.
    """

    lines: tuple[LogLine, ...]
    next: str
    has_more: bool
