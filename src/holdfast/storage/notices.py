"""Notices: ends and lost attempts for which the hooks of a kind have not been called yet."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.retention import NOTICES, UNTOLD_AFTER
from holdfast.domain.states import RunOutcome
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

BATCH = 100


class Notice(NamedTuple):
    """What happened to a job that no worker could tell its hooks of, with all that they are given."""

    job: int
    run: int
    at: datetime
    created_at: datetime
    deadline_at: datetime | None
    worker: int | None
    outcome: RunOutcome
    attempt: int
    max_attempts: int
    priority: int
    tries: int
    kind: str
    queue: str
    tags: list[str] | None
    origin: str | None
    error: str | None
    state: str | None


class Untold(NamedTuple):
    """How many notices of one kind and outcome no worker has taken, and the first of their jobs."""

    kind: str
    outcome: RunOutcome
    number: int
    job: int


_TAKE = statement("notice_take", Notice)
_DROP = statement("notice_drop", int, is_repeatable=True)
_OVERDUE = statement("notice_overdue", Untold)


def take_notices(
    schema: Schema, *, worker: int, kinds: Sequence[str], limit: int = BATCH
) -> Statement[Notice]:
    """Take notices of these kinds. They are this worker's for as long as it lives."""
    return _TAKE.with_params(schema, worker=worker, kinds=sorted(set(kinds)), limit=limit)


def drop_notice(schema: Schema, notice: Notice) -> Statement[int]:
    """Its hooks were called: delete it."""
    return _DROP.with_params(schema, kind=notice.kind, job=notice.job, run=notice.run)


def overdue_notices(
    schema: Schema,
    *,
    patience: timedelta = UNTOLD_AFTER,
    keep: timedelta = NOTICES,
    limit: int = 1_000,
    now: datetime | None = None,
) -> Statement[Untold]:
    """What no worker has taken in time, each answered once; deletes what was answered long ago."""
    return _OVERDUE.with_params(schema, patience=patience, keep=keep, limit=limit, now=now)
