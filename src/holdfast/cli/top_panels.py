"""What `holdfast top` shows, as text and tables: pure functions of what the database answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from holdfast.cli.formats import distance, length
from holdfast.cli.state_look import Cell, marked
from holdfast.cli.table import Columns
from holdfast.cli.workers import state_of
from holdfast.insights.failure_records import FailureGroup
from holdfast.insights.overview_records import Overview
from holdfast.insights.queue_records import QueueStatus
from holdfast.insights.stats_records import Stats
from holdfast.insights.workers import RunningJob, WorkerRecord

Rows = list[tuple[str, ...]]

RATE_OF = timedelta(minutes=5)
_MINUTE = timedelta(minutes=1)
_WHOLE = 10
_NONE = timedelta()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was asked at one time. `recent` are the figures behind the rates."""

    overview: Overview
    recent: Stats
    workers: Sequence[WorkerRecord]

    @property
    def now(self) -> datetime:
        return self.overview.now

    def rate(self, count: int) -> str:
        """So many in the time of `recent`, in a minute."""
        per_minute = count / max((self.recent.until - self.recent.since) / _MINUTE, 1)
        return f"{per_minute:,.0f}" if per_minute >= _WHOLE or not count else f"{per_minute:.1f}"


@dataclass(frozen=True, slots=True)
class Order:
    """A way to sort the rows of a panel, and what it is called."""

    name: str
    key: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """A table of the view. `found` are the things of its rows; each of them becomes one."""

    name: str
    columns: Columns
    orders: Sequence[Order]
    found: Callable[[Snapshot], Sequence[Any]]
    row: Callable[[Any, Snapshot], tuple[str, ...]]
    empty: str

    def rows(self, snapshot: Snapshot, order: int) -> Rows:
        sort = self.orders[order % len(self.orders)]
        return [self.row(each, snapshot) for each in sorted(self.found(snapshot), key=sort.key)]


def summary(snapshot: Snapshot) -> list[Cell]:
    """The line above all panels."""
    seen = snapshot.overview
    states, total = seen.states, snapshot.recent.total
    return [
        Cell(f"ready {states.ready}"),
        *([Cell(f"gated {states.gated}")] if states.gated.count else []),
        Cell(f"scheduled {states.scheduled}"),
        Cell(f"running {states.running}", "blue" if states.running.count else ""),
        Cell(f"waiting {states.waiting}"),
        Cell(f"failed {states.failed}", "red" if states.failed.count else ""),
        Cell(f"in {snapshot.rate(total.enqueued)}/min"),
        Cell(f"out {snapshot.rate(total.ended)}/min"),
        Cell(f"failing {snapshot.rate(total.failed)}/min", "red" if total.failed else ""),
        Cell(f"workers {seen.workers}", "" if seen.workers else "red"),
    ]


def warnings(snapshot: Snapshot) -> list[Cell]:
    """What needs attention, a sentence each."""
    return [Cell(f"! {each.sentence}", "yellow") for each in snapshot.overview.attention]


def _queue_row(queue: QueueStatus, snapshot: Snapshot) -> tuple[str, ...]:
    figures = next((each.figures for each in snapshot.recent.queues if each.name == queue.name), None)
    return (
        queue.name,
        queue.waiting_text,
        length(queue.oldest_wait),
        f"{queue.running:,}",
        snapshot.rate(figures.enqueued if figures else 0),
        snapshot.rate(figures.ended if figures else 0),
        str(queue.workers) if queue.workers else Cell("0", "yellow" if queue.waiting else ""),
        marked("paused", f": {queue.note}" if queue.note else "") if queue.is_paused else "",
    )


def _running(snapshot: Snapshot) -> list[tuple[RunningJob, WorkerRecord]]:
    return [(job, worker) for worker in snapshot.workers for job in worker.running]


def _running_row(found: tuple[RunningJob, WorkerRecord], snapshot: Snapshot) -> tuple[str, ...]:
    job, worker = found
    return (
        str(job.job),
        job.kind,
        str(job.attempt),
        length(snapshot.now - job.started_at),
        f"{worker.id} on {worker.host}",
        Cell("asked to stop", "yellow") if job.is_cancelling else "",
    )


def _failure_row(group: FailureGroup, snapshot: Snapshot) -> tuple[str, ...]:
    words = str(group).splitlines()
    return (
        group.fingerprint,
        f"{group.last_hour:,}",
        f"{group.last_day:,}",
        distance(group.last_seen_at, snapshot.now),
        ", ".join(group.kinds),
        words[0] if words else "",
    )


def _worker_row(worker: WorkerRecord, snapshot: Snapshot) -> tuple[str, ...]:
    return (
        str(worker.id),
        state_of(worker),
        worker.host,
        str(worker.pid),
        f"{worker.used}/{worker.slots}",
        distance(worker.beat_at, snapshot.now),
        ", ".join(worker.queues),
    )


PANELS: tuple[Panel, ...] = (
    Panel(
        name="queues",
        columns=Columns(
            ("QUEUE", "WAITING", "OLDEST", "RUNNING", "IN/MIN", "OUT/MIN", "WORKERS", "STATE"),
            flexible=("STATE", "QUEUE"),
            spare=("WORKERS",),
        ),
        orders=(
            Order("waiting", lambda queue: (-queue.waiting, -queue.running, queue.name)),
            Order("oldest", lambda queue: (-(queue.oldest_wait or _NONE), queue.name)),
            Order("name", lambda queue: queue.name),
        ),
        found=lambda snapshot: snapshot.overview.queues,
        row=_queue_row,
        empty="there are no queues: enqueue a job, or start a worker",
    ),
    Panel(
        name="running",
        columns=Columns(
            ("JOB", "KIND", "TRY", "FOR", "WORKER", ""), flexible=("KIND", "WORKER"), spare=("WORKER",)
        ),
        orders=(
            Order("longest", lambda found: (found[0].started_at, found[0].job)),
            Order("newest", lambda found: -found[0].job),
            Order("kind", lambda found: (found[0].kind, found[0].job)),
        ),
        found=_running,
        row=_running_row,
        empty="nothing is running",
    ),
    Panel(
        name="failures",
        columns=Columns(
            ("FINGERPRINT", "1H", "24H", "LAST", "KINDS", "FAILURE"),
            flexible=("KINDS", "FAILURE"),
            spare=("24H",),
        ),
        orders=(
            Order("newest", lambda group: (group.last_seen_at.timestamp() * -1, group.fingerprint)),
            Order("frequent", lambda group: (-group.last_hour, -group.last_day, group.fingerprint)),
        ),
        found=lambda snapshot: snapshot.overview.failures,
        row=_failure_row,
        empty="nothing has failed in 24h",
    ),
    Panel(
        name="workers",
        columns=Columns(
            ("ID", "STATE", "HOST", "PID", "SLOTS", "BEAT", "QUEUES"),
            flexible=("QUEUES", "HOST"),
            spare=("PID",),
        ),
        orders=(
            Order("id", lambda worker: worker.id),
            Order("busiest", lambda worker: (-worker.used, worker.id)),
        ),
        found=lambda snapshot: snapshot.workers,
        row=_worker_row,
        empty="no worker is running: start one with: holdfast worker -A …",
    ),
)


def shares(wanted: Sequence[int], room: int, *, chosen: int) -> list[int]:
    """How many rows each panel gets: the chosen one what it wants, as long as every other one has a row; the
    rest go round.
    """
    given = [min(1, want) for want in wanted]
    left = max(room - sum(given), 0)
    more = min(wanted[chosen] - given[chosen], left)
    given[chosen] += more
    left -= more
    while left > 0 and given != list(wanted):
        for n, want in enumerate(wanted):
            if given[n] < want and left > 0:
                given[n] += 1
                left -= 1
    return given
