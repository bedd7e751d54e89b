"""What limits allow: declared by code, set by operators, closed and opened. Whoever writes here also has the
leader look at the limit; what a change means for permits that are held is decided there.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.domain.limits import LimitSpec, breaker_to_json, effective, from_json, to_json
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement


class StoredLimit(NamedTuple):
    """`declared` and `overrides` as `domain/limits.py` writes them."""

    name: str
    declared: str
    overrides: str | None
    is_removed: bool
    is_closed: bool


class ClosedLimit(NamedTuple):
    name: str
    until: datetime | None
    was_closed: bool


class RuleToWrite(NamedTuple):
    """A limit with what code says of it, and what an operator has set."""

    name: str
    declared: LimitSpec
    overrides: Mapping[str, Any] | None


_READ = statement("limit_read", StoredLimit)
_WRITE = statement("limit_write", str)
_KEY_WRITE = statement("limit_key_write", str)
_CLOSE = statement("limit_close", ClosedLimit)
_REMOVE = statement("limit_remove", str)
_SPEND = statement("limit_spend", str)


def declare(
    schema: Schema, limits: Mapping[str, LimitSpec], *, now: datetime | None = None
) -> Conversation[list[str]]:
    """Write down what code declares; answers the limits that are new or have changed. What an operator has
    set stays. Limits that are as they were are not written, so that a fleet that starts does not wait for
    itself.
    """
    names = sorted(limits)
    if not names:
        return []
    stored = {row.name: row for row in (yield from ask(_READ.with_params(schema, names=names)))}
    changed = [
        RuleToWrite(name, limits[name], _overrides(stored.get(name)))
        for name in names
        if not _is_declared_so(stored.get(name), limits[name])
    ]
    if not changed:
        return []
    return (yield from ask(write_rules(schema, changed, declares=True, now=now)))


def read_limit(schema: Schema, name: str) -> Statement[StoredLimit]:
    """Locked until the end of the transaction, for a change of what an operator has set."""
    return _READ.with_params(schema, names=[name])


def write_rules(
    schema: Schema, rules: Sequence[RuleToWrite], *, declares: bool = False, now: datetime | None = None
) -> Statement[str]:
    """`rules` in ascending order of names."""
    columns = [_columns(rule) for rule in rules]
    arrays = {name: [each[name] for each in columns] for name in columns[0]}
    return _WRITE.with_params(schema, **arrays, declares=declares, now=now)


def write_key(
    schema: Schema,
    limit: str,
    key: str,
    *,
    per_key: int | None = None,
    weight: float | None = None,
    forget: bool = False,
    now: datetime | None = None,
) -> Statement[str]:
    return _KEY_WRITE.with_params(
        schema, limit=limit, key=key, per_key=per_key, weight=weight, forget=forget, now=now
    )


def close(
    schema: Schema,
    limit: str,
    *,
    key: str | None = None,
    until: datetime | None = None,
    length: timedelta | None = None,
    reason: str | None = None,
    opens: bool = False,
    job: int | None = None,
    now: datetime | None = None,
) -> Statement[ClosedLimit]:
    """Close it, or with `opens` open it again. `job`: whose handler asks for it, and whose key is meant if
    none is given.
    """
    return _CLOSE.with_params(
        schema, limit=limit, key=key, until=until, length=length, reason=reason, opens=opens, job=job, now=now
    )


class Spending(NamedTuple):
    """What a run has used of a limit's rate besides its start. Without a key: the key that its job has."""

    job: int
    limit: str
    units: int
    key: str | None


def spend(schema: Schema, spending: Spending) -> Statement[str]:
    return _SPEND.with_params(
        schema, limit=spending.limit, units=spending.units, key=spending.key, job=spending.job
    )


def remove(schema: Schema, limit: str, *, force: bool = False, now: datetime | None = None) -> Statement[str]:
    """`force`: also while a live worker runs a kind that has it."""
    return _REMOVE.with_params(schema, limit=limit, force=force, now=now)


def _overrides(stored: StoredLimit | None) -> Mapping[str, Any] | None:
    return None if stored is None or stored.overrides is None else json.loads(stored.overrides)


def _is_declared_so(stored: StoredLimit | None, spec: LimitSpec) -> bool:
    if stored is None or stored.is_removed:
        return False
    return to_json(from_json(stored.declared)) == to_json(spec)


def _columns(rule: RuleToWrite) -> dict[str, object]:
    spec = effective(rule.declared, rule.overrides)
    rate, key_rate = spec.rate, spec.rate_per_key
    return {
        "names": rule.name,
        "declareds": json.dumps(to_json(rule.declared)),
        "overrides": json.dumps(rule.overrides) if rule.overrides else None,
        "totals": spec.total,
        "per_keys": spec.per_key,
        "rates": rate and rate.count,
        "rate_pers": rate and rate.window,
        "bursts": rate and rate.burst,
        "stricts": rate is not None and rate.strict,
        "key_rates": key_rate and key_rate.count,
        "key_rate_pers": key_rate and key_rate.window,
        "key_bursts": key_rate and key_rate.burst,
        "key_stricts": key_rate is not None and key_rate.strict,
        "fairs": spec.turns,
        "directs": spec.may_be_direct,
        "holds": spec.hold,
        "breakers": None if spec.breaker is None else json.dumps(breaker_to_json(spec.breaker)),
    }
