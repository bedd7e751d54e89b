"""What operators did, and to what: one entry for each action."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.failure import storable
from holdfast.domain.job import check_limit, check_text
from holdfast.errors import InvalidInput
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement

PYTHON = "python"
"""Who acts, unless the caller says so."""
_TEXT_LIMIT = 1_000
_BATCH = 10_000
WINDOW = 50_000
"""So many entries a page looks at, at most: those of one operator may be few among many."""


class AuditRow(NamedTuple):
    """An entry, or none: a page says in any case how many it `looked` at, and the `last` of those."""

    id: int | None
    at: datetime
    action: str
    by: str
    target: str
    reason: str | None
    counts: str
    looked: int
    last: int | None
    now: datetime


_PUT = statement("audit_put", int)
_LIST = statement("audit_list", AuditRow, is_repeatable=True)
_PRUNE = statement("audit_prune", int)


def check_signed(by: object, reason: object) -> None:
    """Who acts and why, before anything is changed."""
    check_text("by", by)
    if not str(by).strip():
        raise InvalidInput("by is empty: say who does it")
    if reason is not None:
        check_text("reason", reason)


def put_audit(
    schema: Schema,
    *,
    action: str,
    by: str,
    target: str,
    reason: str | None,
    counts: Mapping[str, int],
    now: datetime | None = None,
) -> Statement[int]:
    """Remember an action; in the transaction of the action itself."""
    check_signed(by, reason)
    return _PUT.with_params(
        schema,
        action=action,
        by=storable(by)[:_TEXT_LIMIT],
        target=storable(target)[:_TEXT_LIMIT],
        reason=None if reason is None else storable(reason)[:_TEXT_LIMIT],
        counts=json.dumps(dict(counts)),
        now=now,
    )


def audit(
    schema: Schema,
    *,
    by: str | None = None,
    action: str | None = None,
    before: int | None = None,
    limit: int = 50,
    window: int = WINDOW,
    now: datetime | None = None,
) -> Statement[AuditRow]:
    """A page, newest first; the next one begins `before` the last of this one."""
    check_limit(limit)
    for what, text in (("by", by), ("action", action)):
        if text is not None:
            check_text(what, text)
    return _LIST.with_params(
        schema,
        by=None if by is None else storable(by),
        action=None if action is None else storable(action),
        before=before,
        limit=limit,
        window=max(window, limit),
        now=now,
    )


def prune_audit(schema: Schema, *, keep: timedelta, now: datetime | None = None) -> Statement[int]:
    return _PRUNE.with_params(schema, keep=keep, limit=_BATCH, now=now)
