"""Groups of failures: tallies are folded into counts and groups; lists of groups, and their dead letters."""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from holdfast.domain.job import check_limit
from holdfast.domain.retention import FAILURE_COUNTS, FAILURE_GROUPS
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement, StatementFile
from holdfast.storage.statements import statement

Order = Literal["newest", "frequent"]

WINDOW = 1_000
"""How many groups one page looks at, when it cannot find those that match by a key."""
DEAD_CAP = 10_000
_ALL = FAILURE_GROUPS * 2


class FoldedFailures(NamedTuple):
    folded: int
    seen: int | None


class FailureRow(NamedTuple):
    """A group in a list. Without a fingerprint it only says how far the list has looked. `runs` are those
    since the time that was asked for.
    """

    fingerprint: str | None
    first_seen_at: datetime
    last_seen_at: datetime
    job: int
    run: int
    kind: str
    queue: str
    code: str | None
    type: str | None
    message: str | None
    frame: str | None
    last_hour: int
    last_day: int
    last_week: int
    runs: int
    kinds: list[str]
    queues: list[str]
    scanned: int
    last_scanned_at: datetime | None
    last_scanned: str | None
    now: datetime


_FOLD = statement("failure_fold", FoldedFailures)
_PRUNE = statement("failure_prune", int)
_LISTS: dict[Order, StatementFile[FailureRow]] = {
    "newest": statement("failure_list_newest", FailureRow, is_repeatable=True),
    "frequent": statement("failure_list_frequent", FailureRow, is_repeatable=True),
}
_SHOW = statement("failure_show", FailureRow, is_repeatable=True)
_DEAD_COUNT = statement("failure_dead_count", int, is_repeatable=True)


def fold_failures(
    schema: Schema, *, since: int | None = None, limit: int = 10_000
) -> Statement[FoldedFailures]:
    """Fold tallies into counts and groups."""
    return _FOLD.with_params(schema, since=since, limit=limit)


def prune_failures(schema: Schema, *, limit: int = 10_000, now: datetime | None = None) -> Statement[int]:
    """Delete counts and groups of long ago; answers how many."""
    return _PRUNE.with_params(
        schema, keep_counts=FAILURE_COUNTS, keep_groups=FAILURE_GROUPS, limit=limit, now=now
    )


def newest_failures(
    schema: Schema,
    *,
    kind: str | None = None,
    queue: str | None = None,
    since: timedelta | None = None,
    before: tuple[datetime, str] | None = None,
    limit: int = 50,
    window: int = WINDOW,
    now: datetime | None = None,
) -> Statement[FailureRow]:
    """Groups, the one that was seen last first, `before` the one with this time and fingerprint."""
    check_limit(limit)
    seen_at, fingerprint = before or (None, None)
    return _LISTS["newest"].with_params(
        schema,
        kind=kind,
        queue=queue,
        since=since or _ALL,
        before=seen_at,
        before_runs=None,
        before_fingerprint=fingerprint,
        limit=limit,
        window=max(window, limit),
        now=now,
    )


def frequent_failures(
    schema: Schema,
    *,
    kind: str | None = None,
    queue: str | None = None,
    since: timedelta | None = None,
    before: tuple[int, str] | None = None,
    limit: int = 50,
    now: datetime | None = None,
) -> Statement[FailureRow]:
    """Groups, the one that failed most often first, `before` the one with this count and fingerprint."""
    check_limit(limit)
    runs, fingerprint = before or (None, None)
    return _LISTS["frequent"].with_params(
        schema,
        kind=kind,
        queue=queue,
        since=since or _ALL,
        before_runs=runs,
        before_fingerprint=fingerprint,
        limit=limit,
        window=WINDOW,
        now=now,
    )


def failure_group(schema: Schema, fingerprint: str, *, now: datetime | None = None) -> Statement[FailureRow]:
    """One group, however long ago it was seen; no row if there is none."""
    return _SHOW.with_params(schema, fingerprint=fingerprint, kind=None, queue=None, since=_ALL, now=now)


def count_dead(schema: Schema, fingerprint: str, *, cap: int = DEAD_CAP + 1) -> Statement[int]:
    return _DEAD_COUNT.with_params(schema, fingerprint=fingerprint, cap=cap)
