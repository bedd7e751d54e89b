"""How figures over time look: as cells for people, as JSON for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from holdfast.cli.formats import length, moment
from holdfast.cli.state_look import Cell, marked
from holdfast.cli.table import Columns
from holdfast.insights.queue_records import QueueStatus
from holdfast.insights.stats_records import Figures, Stats

_COUNTS = ("ENQUEUED", "STARTED", "SUCCEEDED", "RETRIED", "FAILED", "OTHER")
_LENGTHS = ("WAIT P50", "WAIT P95", "WAIT P99", "RUN P50", "RUN P95", "RUN P99")
_SPARE = ("OTHER", "WAIT P50", "RUN P50", "STARTED", "RETRIED")
KINDS = Columns(("KIND", *_COUNTS, *_LENGTHS), flexible=("KIND",), spare=_SPARE)
POINTS = Columns(("FROM (UTC)", *_COUNTS, *_LENGTHS), spare=_SPARE)
QUEUES = Columns(
    ("QUEUE", "WAITING", "DUE FOR", "RUNNING", "WORKERS", "ENQUEUED", "ENDED", "WAIT P95", "STATE"),
    flexible=("QUEUE", "STATE"),
)


def title(stats: Stats) -> str:
    return f"from {moment(stats.since)} to {moment(stats.until)} UTC"


def kind_rows(stats: Stats) -> list[tuple[str, ...]]:
    """Those that did most come first; below them all together."""
    busiest = sorted(stats.kinds, key=lambda kind: (-kind.figures.ended, kind.name))
    rows = [(kind.name, *_cells(kind.figures)) for kind in busiest]
    return [*rows, ("all", *_cells(stats.total))] if len(rows) > 1 else rows


def point_rows(stats: Stats) -> list[tuple[str, ...]]:
    return [(moment(point.at), *_cells(point.figures)) for point in stats.points]


def queue_rows(stats: Stats, depths: Sequence[QueueStatus]) -> list[tuple[str, ...]]:
    """Queues that have something now, and those that had something."""
    had = {queue.name: queue.figures for queue in stats.queues}
    now = {queue.name: queue for queue in depths}
    return [
        (name, *_depth(now.get(name)), *_flow(had.get(name)), _state(now.get(name)))
        for name in sorted(had.keys() | now.keys())
    ]


def _cells(figures: Figures) -> tuple[str, ...]:
    ends = figures.outcomes
    failed, retried = ends.get("failed", 0), ends.get("retried", 0)
    other = figures.ended - figures.succeeded - failed - retried
    counts = (figures.enqueued, figures.started, figures.succeeded, retried, failed, other)
    spreads = (figures.wait, figures.run)
    lengths = [part for spread in spreads for part in (spread.p50, spread.p95, spread.p99)]
    return (*(f"{count:,}" for count in counts), *map(_about, lengths))


def _depth(queue: QueueStatus | None) -> tuple[str, ...]:
    if queue is None:
        return ("0", "", "0", "0")
    return (queue.waiting_text, length(queue.oldest_wait), f"{queue.running:,}", str(queue.workers))


def _flow(figures: Figures | None) -> tuple[str, ...]:
    if figures is None:
        return ("0", "0", "")
    return (f"{figures.enqueued:,}", f"{figures.ended:,}", _about(figures.wait.p95))


def _state(queue: QueueStatus | None) -> str:
    if queue is None:
        return ""
    if queue.is_paused:
        return marked("paused")
    return Cell("no worker", "yellow") if queue.waiting and not queue.workers else ""


def _about(span: timedelta | None) -> str:
    """To two figures: more would promise what a bucket does not know."""
    if span is None:
        return ""
    seconds = span.total_seconds()
    if seconds >= 100:  # noqa: PLR2004  # as exact as it matters
        return length(span)
    for unit, size in (("s", 1.0), ("ms", 0.001)):
        if seconds >= size:
            number = seconds / size
            return f"{number:.0f}{unit}" if number >= 10 else f"{number:.1f}{unit}"  # noqa: PLR2004
    return "<1ms"


def facts(stats: Stats, depths: Sequence[QueueStatus]) -> dict[str, Any]:
    """One object: the figures, and as `depths` what waits in each queue now."""
    return {**asdict(stats), "depths": [asdict(queue) for queue in depths]}
