"""What operators see of limits: what each allows, who holds its permits, and who waits at its gate."""

from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.job import check_limit
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

LIMIT_CAP = 10_000
KEY_CAP = 1_000
GATE_CAP = 1_000


class LimitRow(NamedTuple):
    """A limit. `held`, `keys` that hold permits, and `waiting` jobs are counted up to 10,000, one more if
    there are more. `declared` and `overrides` are JSON, as `domain/limits.py` reads it.
    """

    name: str
    declared: str
    overrides: str | None
    is_direct: bool
    changed_at: datetime
    removed_at: datetime | None
    closed_at: datetime | None
    closed_until: datetime | None
    closed_reason: str | None
    held: int
    keys: int
    waiting: int
    oldest_wait: timedelta | None
    open_until: datetime | None
    failures: int
    shut_keys: int
    kinds: list[str]
    set_keys: list[str]
    now: datetime


class LimitKeyRow(NamedTuple):
    """A key of a limit. `waiting` jobs are counted up to 1,000, one more if there are more."""

    key: str
    held: int
    waiting: int
    oldest_wait: timedelta | None
    per_key: int | None
    weight: float | None
    closed_at: datetime | None
    closed_until: datetime | None
    closed_reason: str | None
    open_until: datetime | None
    failures: int
    due_at: datetime | None
    now: datetime


class TroubledRow(NamedTuple):
    """A limit that an operator should know of. `is_zero`: a number of permits is set to 0.
    `open_until`: its breaker is open, for `pause` in all. `stuck_for`: a job that nothing seems to keep has
    waited for so long. `waiting` jobs are counted up to 10,000, one more if there are more.
    """

    name: str
    closed_at: datetime | None
    closed_until: datetime | None
    closed_reason: str | None
    is_zero: bool
    open_until: datetime | None
    pause: timedelta | None
    failures: int
    stopped_keys: int
    stuck_for: timedelta | None
    waiting: int
    now: datetime


class HolderRow(NamedTuple):
    """A job that holds a permit; since when it runs, if it does."""

    job: int
    state: str
    kind: str
    key: str
    since: datetime | None


class Ahead(NamedTuple):
    """How many wait before a job at its gate, and how long runs of its kind usually take, in seconds."""

    ahead: int
    usual: float | None


_AHEAD = statement("gate_ahead", Ahead, is_repeatable=True)
_LIST = statement("limit_list", LimitRow, is_repeatable=True)
_KEYS = statement("limit_keys_list", LimitKeyRow, is_repeatable=True)
_TROUBLED = statement("overview_limits", TroubledRow, is_repeatable=True)
_HOLDERS = statement("limit_holders", HolderRow, is_repeatable=True)


def limits(
    schema: Schema,
    *,
    name: str | None = None,
    after: str | None = None,
    limit: int = 100,
    now: datetime | None = None,
) -> Statement[LimitRow]:
    """A page by name, or the one that is named."""
    check_limit(limit)
    return _LIST.with_params(schema, name=name, after=after, limit=limit, cap=LIMIT_CAP, now=now)


def limit_keys(
    schema: Schema,
    limit: str,
    *,
    key: str | None = None,
    after: str | None = None,
    most: int = 50,
    now: datetime | None = None,
) -> Statement[LimitKeyRow]:
    """A page of keys, or the one that is named."""
    check_limit(most)
    return _KEYS.with_params(schema, limit=limit, key=key, after=after, most=most, cap=KEY_CAP, now=now)


def troubled_limits(
    schema: Schema, *, patience: timedelta, now: datetime | None = None
) -> Statement[TroubledRow]:
    """Those that are closed or stopped, wholly or in part, and those at which a job has waited for longer
    than `patience` although nothing holds a permit.
    """
    return _TROUBLED.with_params(schema, patience=patience, cap=LIMIT_CAP + 1, now=now)


def limit_holders(
    schema: Schema, limit: str, *, key: str | None = None, most: int = 20
) -> Statement[HolderRow]:
    return _HOLDERS.with_params(schema, limit=limit, key=key, most=most)


def ahead_at_gate(
    schema: Schema,
    *,
    job: int,
    kind: str,
    priority: int,
    limit: str,
    key: str,
    now: datetime | None = None,
) -> Statement[Ahead]:
    return _AHEAD.with_params(
        schema, job=job, kind=kind, priority=priority, limit=limit, key=key, cap=GATE_CAP, now=now
    )
