"""What only the database knows: asked at most every few seconds, however often anybody looks, and waited for
only for a moment, so that a scrape is answered while the database is away.
"""

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from holdfast.metrics.catalogue import (
    ANSWER_AGE,
    FOLD_LAG,
    JOBS,
    LEADER,
    LIMIT_CLOSED,
    LIMIT_HELD,
    LIMIT_WAIT,
    LIMIT_WAITING,
    OLDEST_WAIT,
    PAUSED,
    PLAN_LAG,
    PROMOTE_LAG,
    PRUNE_LAG,
    QUESTIONS,
    QUEUE_WORKERS,
    READY,
    RUNNING,
    WORKERS,
)
from holdfast.metrics.figures import Figures
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.doctor import WorkFacts, work_facts
from holdfast.storage.limits_shown import LIMIT_CAP, LimitRow, limits
from holdfast.storage.operators import QUEUE_CAP, QueueRow, queues
from holdfast.storage.statistics import STATE_CAP, OverviewRow, overview

_log = logging.getLogger("holdfast.metrics")

_FRESH: Final = 5.0
_PATIENCE: Final = 2.0
_STALE: Final = 60.0
_MOST_QUEUES: Final = 200
_NOTHING: Final = timedelta()


def read_figures(schema: Schema, *, now: datetime | None = None) -> Conversation[Figures]:
    """A few bounded questions: states are counted up to 10,000, and so are the jobs of 200 queues."""
    [row] = yield from ask(overview(schema, now=now))
    [work] = yield from ask(work_facts(schema, now=now))
    rows = yield from ask(queues(schema, limit=_MOST_QUEUES, now=now))
    figures = Figures()
    _add_overview(figures, row)
    _add_lags(figures, work)
    for each in rows:
        _add_queue(figures, each)
    for limit in (yield from ask(limits(schema, limit=_MOST_QUEUES, now=now))):
        _add_limit(figures, limit)
    return figures


def _add_overview(figures: Figures, row: OverviewRow) -> None:
    counts = {
        "ready": row.ready,
        "gated": row.gated,
        "scheduled": row.scheduled,
        "waiting": row.waiting,
        "running": row.running,
        "failed": row.failed,
    }
    for state, count in counts.items():
        figures.add(JOBS, min(count, STATE_CAP), state)
    figures.add(WORKERS, row.live_workers)
    figures.add(LEADER, row.leader is not None)


def _add_lags(figures: Figures, work: WorkFacts) -> None:
    lags = (
        (PROMOTE_LAG, work.promote_lag),
        (PRUNE_LAG, work.prune_lag),
        (FOLD_LAG, work.fold_lag),
        (PLAN_LAG, work.plan_lag),
    )
    for metric, lag in lags:
        figures.add(metric, max(lag or _NOTHING, _NOTHING).total_seconds())


def _add_queue(figures: Figures, row: QueueRow) -> None:
    figures.add(READY, min(row.waiting, QUEUE_CAP), row.queue)
    figures.add(OLDEST_WAIT, (row.oldest_wait or _NOTHING).total_seconds(), row.queue)
    figures.add(RUNNING, row.running, row.queue)
    figures.add(QUEUE_WORKERS, row.workers, row.queue)
    figures.add(PAUSED, row.paused_at is not None, row.queue)


def _add_limit(figures: Figures, row: LimitRow) -> None:
    is_open = row.closed_at is None and (row.open_until is None or row.open_until <= row.now)
    figures.add(LIMIT_HELD, row.held, row.name)
    figures.add(LIMIT_WAITING, min(row.waiting, LIMIT_CAP), row.name)
    figures.add(LIMIT_WAIT, (row.oldest_wait or _NOTHING).total_seconds(), row.name)
    figures.add(LIMIT_CLOSED, not is_open, row.name)


class DatabaseFigures:
    """`ask` blocks, for as long as it takes: it runs in a thread of its own."""

    def __init__(self, ask: Callable[[], Figures]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked_at = float("-inf")
        self._answered_at = float("-inf")
        self._answer = Figures()
        self._worked = self._failed = 0
        self._is_closed = False

    def latest(self) -> Figures:
        """Asks again if the answer is a few seconds old. What is older than a minute is left out."""
        with self._lock:
            is_due = monotonic() - self._asked_at >= _FRESH
            if is_due and self._thread is None and not self._is_closed:
                self._asked_at = monotonic()
                self._thread = threading.Thread(target=self._answer_one, name="holdfast-figures", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread is not None:
            thread.join(_PATIENCE)
        age = monotonic() - self._answered_at
        figures = Figures()
        if age < _STALE:
            figures.include(self._answer)
            figures.add(ANSWER_AGE, age)
        figures.add(QUESTIONS, self._worked, "answered")
        figures.add(QUESTIONS, self._failed, "failed")
        return figures

    def close(self) -> None:
        """Ask nothing more. Waits for a question under way, but not for long."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            thread.join(_PATIENCE)

    def _answer_one(self) -> None:
        try:
            self._answer = self._ask()
            self._answered_at = monotonic()
            self._worked += 1
        except Exception as error:  # noqa: BLE001  # told: by a counter, and by the age of the answer
            self._failed += 1
            _log.debug("the database did not answer for metrics: %s", error)
        finally:
            with self._lock:
                self._thread = None
