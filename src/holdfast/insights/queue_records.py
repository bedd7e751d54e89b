"""What operators see of a queue."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.storage.operators import QUEUE_CAP, QueueRow


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue that is paused, that a live worker serves, or that has jobs.

    `waiting` jobs are ready to run; they are counted up to 10,000, `has_more_waiting` says that there are
    more. `oldest_age` is how long ago the oldest of them was enqueued, `oldest_wait` how long it has been
    due: after a delay or a retry that is less. `workers` serve it now. `pause_left` is for how long it stays
    paused, if the pause ends by itself.
    """

    name: str
    workers: int
    paused_at: datetime | None
    paused_until: datetime | None
    note: str | None
    waiting: int = 0
    has_more_waiting: bool = False
    running: int = 0
    oldest_age: timedelta | None = None
    oldest_wait: timedelta | None = None
    pause_left: timedelta | None = None

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None

    @property
    def waiting_text(self) -> str:
        """For people: `17`, or `10,000+`."""
        return f"{self.waiting:,}{'+' if self.has_more_waiting else ''}"


def status_of(row: QueueRow) -> QueueStatus:
    return QueueStatus(
        row.queue,
        row.workers,
        row.paused_at,
        row.paused_until,
        row.note,
        waiting=min(row.waiting, QUEUE_CAP),
        has_more_waiting=row.waiting > QUEUE_CAP,
        running=row.running,
        oldest_age=row.oldest_age,
        oldest_wait=row.oldest_wait,
        pause_left=row.pause_left,
    )
