"""How limits, their keys and the holders of their permits look."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from holdfast.cli.formats import how_many, length, moment
from holdfast.cli.state_look import Cell
from holdfast.cli.table import Columns, print_columns
from holdfast.insights.limit_records import LimitDetail, LimitKeyStatus, LimitStatus

COLUMNS = Columns(
    ("LIMIT", "ALLOWS", "HELD", "WAITING", "OLDEST", "STATE"), flexible=("STATE", "ALLOWS", "LIMIT")
)
_KEYS = Columns(("KEY", "HELD", "WAITING", "OLDEST", "STATE"), flexible=("STATE", "KEY"))
_HOLDERS = Columns(("JOB", "KIND", "KEY", "STATE", "SINCE (UTC)"), flexible=("KIND", "KEY"))


def list_row(limit: LimitStatus) -> tuple[str, ...]:
    return (
        limit.name,
        allows(limit),
        f"{limit.held:,}",
        limit.waiting_text,
        length(limit.oldest_wait),
        _state(limit),
    )


def allows(limit: LimitStatus) -> str:
    """`5 per key, 100 in all, 90 per 10s`."""
    if limit.is_removed:
        return "everything"
    parts = (
        None if limit.per_key is None else f"{limit.per_key:,} per key",
        None if limit.total is None else f"{limit.total:,} in all",
        limit.rate,
        None if limit.rate_per_key is None else f"{limit.rate_per_key} per key",
        "in turns" if limit.turns else None,
    )
    return ", ".join(part for part in parts if part) or "any number"


def facts(limit: LimitStatus) -> Iterator[tuple[str, str]]:
    yield "allows", allows(limit)
    if limit.breaker:
        yield "breaker", limit.breaker
    if limit.hold == "job":
        yield "holds", "permits are kept until jobs have ended"
    if limit.overrides:
        yield "set", ", ".join(f"{name} {value}" for name, value in limit.overrides.items())
    more = "" if limit.keys <= 1 else f" by {how_many(limit.keys, 'key')}"
    yield "held", f"{how_many(limit.held, 'permit')}{more}"
    oldest = "" if limit.oldest_wait is None else f", the oldest for {length(limit.oldest_wait)}"
    yield "waiting", f"{limit.waiting_text} {'job' if limit.waiting == 1 else 'jobs'}{oldest}"
    if limit.kinds:
        yield "jobs", ", ".join(limit.kinds)
    yield "state", _state(limit) or "open"


def settings_of(found: LimitDetail, key: str | None, names: Sequence[str]) -> dict[str, Any]:
    """What these settings are, of the limit or of one key, which has only what was set for it."""
    settled: object = found.limit if key is None else next(iter(found.keys), None)
    return {name: getattr(settled, name, None) for name in names}


def changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """`total 3 → 20, rate none → 90 per 10s`."""
    return ", ".join(
        f"{name} {_setting(was[name])} → {_setting(now[name])}"
        if was[name] != now[name]
        else f"{name} {_setting(now[name])}, as before"
        for name in now
    )


def _setting(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "on" if value else "off"
        case int() | float():
            return f"{value:,g}" if isinstance(value, float) else f"{value:,}"
        case _:
            return str(value)


def _state(limit: LimitStatus) -> str:
    """What an operator should know first."""
    if limit.is_removed:
        return Cell("removed", "dim")
    if limit.is_closed:
        return Cell(_closed(limit.closed_until, limit.closed_reason), "yellow")
    if limit.open_for is not None:
        return Cell(
            f"stopped by {how_many(limit.failures, 'failure')} for another {length(limit.open_for)}", "red"
        )
    if limit.stopped_keys:
        return Cell(f"{how_many(limit.stopped_keys, 'key')} stopped", "yellow")
    return "set by an operator" if limit.overrides else ""


def _closed(until: datetime | None, reason: str | None) -> str:
    end = "" if until is None else f" until {moment(until)} UTC"
    return f"closed{end}{'' if reason is None else f': {reason}'}"


def print_keys(found: LimitDetail) -> None:
    if not found.keys or [key.key for key in found.keys] == [""]:
        return
    click.echo()
    print_columns(_KEYS, [_key_row(key) for key in found.keys])
    if found.next is not None:
        click.echo(f"more keys: --after {found.next}")


def _key_row(key: LimitKeyStatus) -> tuple[str, ...]:
    held = f"{key.held:,}" if key.allowed is None else f"{key.held:,} of {key.allowed:,}"
    return (key.key, held, key.waiting_text, length(key.oldest_wait), _key_state(key))


def _key_state(key: LimitKeyStatus) -> str:
    if key.is_closed:
        return Cell(_closed(key.closed_until, key.closed_reason), "yellow")
    if key.stopped_for is not None:
        why = f" by {how_many(key.failures, 'failure')}" if key.failures else ""
        return Cell(f"stopped{why} for another {length(key.stopped_for)}", "red")
    if key.free_in is not None:
        return f"next start in {length(key.free_in)}"
    settings = [
        f"{name} {value:g}"
        for name, value in (("allows", key.per_key), ("weight", key.weight))
        if value is not None
    ]
    return f"set: {', '.join(settings)}" if settings else ""


def print_holders(found: LimitDetail) -> None:
    if not found.holders:
        return
    click.echo()
    rows = [
        (f"#{holder.job}", holder.kind, holder.key, holder.state, moment(holder.since))
        for holder in found.holders
    ]
    print_columns(_HOLDERS, rows)
    rest = found.limit.held - len(found.holders)
    if rest > 0 and found.limit.held:
        click.echo(f"{how_many(rest, 'more permit')} held, by jobs that wait for a worker or are not shown")
