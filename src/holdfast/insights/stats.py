"""Reads figures over time: counts, percentiles and histograms, whole and by piece of time, queue and kind."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from holdfast.domain.duration import Length
from holdfast.domain.figure_range import figure_range
from holdfast.domain.histogram import Histogram, length_of
from holdfast.domain.job import check_name, check_time
from holdfast.insights.stats_records import FigurePoint, Figures, NamedFigures, Spread, Stats
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statistics import FigureRow, figures


def read_stats(
    schema: Schema,
    *,
    since: Length,
    until: datetime | None = None,
    resolution: Length | None = None,
    queue: str | None = None,
    kind: str | None = None,
    has_spreads: bool = True,
    now: datetime | None = None,
) -> Conversation[Stats]:
    """Without spreads only what was counted. Checked before anything is asked: a conversation only begins
    when it is held.
    """
    chosen = figure_range(since, resolution)
    if until is not None:
        check_time("until", until)
    for what, name in (("queue", queue), ("kind", kind)):
        if name is not None:
            check_name(what, name)
    asked = figures(
        schema,
        since=chosen.since,
        until=until,
        resolution=chosen.resolution,
        queue=queue,
        kind=kind,
        has_spreads=has_spreads,
        now=now,
    )
    return _read(asked, chosen.resolution)


def _read(asked: Statement[FigureRow], resolution: timedelta) -> Conversation[Stats]:
    rows = yield from ask(asked)
    return stats_of(rows, resolution)


def stats_of(rows: Iterable[FigureRow], resolution: timedelta) -> Stats:
    edges: dict[str, datetime] = {}
    by_time: defaultdict[datetime, _Sum] = defaultdict(_Sum)
    by_queue: defaultdict[str, _Sum] = defaultdict(_Sum)
    by_kind: defaultdict[str, _Sum] = defaultdict(_Sum)
    total = _Sum()
    for row in rows:
        if row.queue is not None:
            by_queue[row.queue].add(row)
        elif row.kind is not None:
            by_kind[row.kind].add(row)
            total.add(row)
        elif row.at is not None and row.what in ("since", "until", "clock"):
            edges[row.what] = row.at.astimezone(UTC)
        elif row.at is not None:
            by_time[row.at.astimezone(UTC)].add(row)
    points = []
    at = edges["since"]
    while at < edges["until"]:
        points.append(FigurePoint(at, by_time[at].figures()))
        at += resolution
    return Stats(
        since=edges["since"],
        until=edges["until"],
        resolution=resolution,
        total=total.figures(),
        points=tuple(points),
        queues=_named(by_queue),
        kinds=_named(by_kind),
        now=edges["clock"],
    )


def _named(sums: dict[str, "_Sum"]) -> tuple[NamedFigures, ...]:
    return tuple(NamedFigures(name, sums[name].figures()) for name in sorted(sums))


class _Sum:
    """The rows of one piece of time, queue or kind."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._buckets: dict[str, Counter[int]] = {"wait": Counter(), "run": Counter()}
        self._enqueued = self._started = 0
        self._waited = self._took = timedelta()

    def add(self, row: FigureRow) -> None:
        if row.buckets is not None and row.counts is not None:
            for bucket, runs in zip(row.buckets, row.counts, strict=True):
                self._buckets[row.what][bucket] += runs
        elif row.what == "begun":
            self._enqueued += row.runs
            self._started += row.started
        else:
            self._outcomes[row.what] += row.runs
            self._took += row.took or timedelta()
            self._waited += row.waited or timedelta()

    def figures(self) -> Figures:
        outcomes = {what: count for what, count in sorted(self._outcomes.items()) if count}
        return Figures(
            enqueued=self._enqueued,
            started=self._started,
            outcomes=outcomes,  # type: ignore[arg-type]  # the database has no others
            wait=_spread(self._buckets["wait"], self._waited),
            run=_spread(self._buckets["run"], self._took),
        )


def _spread(buckets: Counter[int], length: timedelta) -> Spread:
    histogram = Histogram(buckets)
    runs = histogram.total
    p50, p95, p99 = histogram.percentiles(50, 95, 99)
    return Spread(
        runs=runs,
        mean=length / runs if runs else None,
        p50=p50,
        p95=p95,
        p99=p99,
        histogram=tuple((length_of(bucket), count) for bucket, count in sorted(buckets.items())),
    )
