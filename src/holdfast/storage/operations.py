"""Actions on all jobs that match a filter, kept so that any process can go on with them."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.domain.failure import storable
from holdfast.domain.job import check_limit
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

_BATCH = 1_000


class TakenOperation(NamedTuple):
    """An operation whose row this transaction holds."""

    id: int
    action: str
    filter: str
    by: str
    reason: str | None
    cursor: str | None
    parameters: str
    counts: str
    seen: int


class OperationRow(NamedTuple):
    id: int
    action: str
    filter: str
    by: str
    reason: str | None
    parameters: str
    counts: str
    seen: int
    state: str
    created_at: datetime
    advanced_at: datetime
    ended_at: datetime | None
    now: datetime


_START = statement("operation_start", int)
_TAKE = statement("operation_take", TakenOperation)
_ADVANCE = statement("operation_advance", bool)
_STOP = statement("operation_stop", int)
_LIST = statement("operation_list", OperationRow, is_repeatable=True)
_RUNNING = statement("operation_running", int, is_repeatable=True)
_PRUNE = statement("operation_prune", int)
_LAST = statement("job_last", int, is_repeatable=True)


def start(
    schema: Schema,
    *,
    action: str,
    job_filter: str,
    by: str,
    reason: str | None,
    cursor: str,
    parameters: Mapping[str, Any],
    now: datetime | None = None,
) -> Statement[int]:
    """Begin an operation at this cursor; answers its number."""
    return _START.with_params(
        schema,
        action=action,
        filter=job_filter,
        by=storable(by),
        reason=None if reason is None else storable(reason),
        cursor=cursor,
        parameters=json.dumps(dict(parameters)),
        now=now,
    )


def take(
    schema: Schema, *, operation: int | None, idle: timedelta | None = None, now: datetime | None = None
) -> Statement[TakenOperation]:
    """Hold an operation in this transaction: the one named, or one that was not advanced for `idle`."""
    return _TAKE.with_params(schema, id=operation, idle=idle, now=now)


def advance(
    schema: Schema,
    operation: int,
    *,
    cursor: str | None,
    counts: Mapping[str, int],
    seen: int,
    now: datetime | None = None,
) -> Statement[bool]:
    return _ADVANCE.with_params(
        schema, id=operation, cursor=cursor, counts=json.dumps(dict(counts)), seen=seen, now=now
    )


def stop(schema: Schema, operation: int, *, now: datetime | None = None) -> Statement[int]:
    return _STOP.with_params(schema, id=operation, now=now)


def operations(
    schema: Schema,
    *,
    operation: int | None = None,
    before: int | None = None,
    limit: int = 50,
    now: datetime | None = None,
) -> Statement[OperationRow]:
    """A page, newest first, or the one that is named."""
    check_limit(limit)
    return _LIST.with_params(schema, id=operation, before=before, limit=limit, now=now)


def prune_operations(schema: Schema, *, keep: timedelta, now: datetime | None = None) -> Statement[int]:
    return _PRUNE.with_params(schema, keep=keep, limit=_BATCH, now=now)


def last_job(schema: Schema) -> Statement[int]:
    return _LAST.with_params(schema)


def running_operations(schema: Schema) -> Statement[int]:
    """The first operation that has not ended; no row if all have."""
    return _RUNNING.with_params(schema)
