"""`holdfast limits`: what each limit allows, who holds its permits and who waits; change it."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import click

from holdfast.app import App
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.limits_output import (
    COLUMNS,
    changes,
    facts,
    list_row,
    print_holders,
    print_keys,
    settings_of,
)
from holdfast.cli.listing import Listed, after_option, listing
from holdfast.cli.operations import by_option
from holdfast.cli.options import Command, WholeNumber, length
from holdfast.cli.shared_options import json_option, opened, read_until, where
from holdfast.cli.table import print_facts
from holdfast.domain.limits import Breaker, Rate
from holdfast.insights.limit_records import LimitStatus
from holdfast.postgres.schema import Schema

limit_argument = click.argument("limit")
key_option = click.option("--key", metavar="KEY", help="Only this key of the limit.")
reason_option = click.option("--reason", metavar="TEXT", help="Why, for the audit and those who look later.")


@click.group()
def limits() -> None:
    """Show what limits allow, who holds their permits and who waits; change, close and open them."""


@limits.command("list")
@listing(limit=None)
def list_(app: App) -> Listed:
    """List the limits that code has declared: permits held, jobs that wait, and what stops them."""
    found = app.limits.list_sync()
    return Listed(
        COLUMNS,
        [list_row(limit) for limit in found],
        items=found,
        empty="there are no limits: a worker declares those of its code when it starts",
    )


@limits.command()
@limit_argument
@key_option
@after_option
@click.option(
    "-n", "--limit", "most", type=WholeNumber(1, 10_000), default=20, show_default=True, help="How many keys."
)
@where
@json_option
def show(
    limit: str,
    *,
    key: str | None,
    after: str | None,
    most: int,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Show one limit: its settings, its keys, which jobs hold permits, and how many wait."""
    with opened(dsn, schema) as app:
        found = app.limits.show_sync(limit, key=key, after=after, most=most)
    if as_json:
        click.echo(told_as_json(found))
        return
    print_facts((found.limit.name, "limit"), facts(found.limit))
    if key is not None and not found.keys:
        click.echo(
            f'\nnobody holds a permit of the key "{key}" or waits for one, and nothing is set for it: it is '
            "idle, or nobody ever used it"
        )
    print_keys(found)
    print_holders(found)


def _number_or_none(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "none":
        return value
    if not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither a whole number nor `none`", ctx, param)
    return int(value)


def _rate_or_none(ctx: click.Context, param: click.Parameter, value: str | None) -> Rate | str | None:
    """`90/10s`, `90/10s:5` with a burst."""
    if value is None or value == "none":
        return value
    count, slash, rest = value.partition("/")
    per, colon, burst = rest.partition(":")
    if not slash or not count.isdecimal() or (colon and not burst.isdecimal()):
        raise click.BadParameter(
            f"{value!r} is no rate: give 90/10s, 90/10s:5 with a burst of 5, or `none`", ctx, param
        )
    window = length(ctx, param, per)
    return Rate(int(count), per=window, burst=int(burst) if colon else 1)


def _breaker_or_none(ctx: click.Context, param: click.Parameter, value: str | None) -> Breaker | str | None:
    """`5/30s`, `5/30s:key` for each key."""
    if value is None or value == "none":
        return value
    failures, slash, rest = value.partition("/")
    pause, colon, whose = rest.partition(":")
    if not slash or not failures.isdecimal() or (colon and whose != "key"):
        raise click.BadParameter(
            f"{value!r} is no breaker: give 5/30s to stop for 30s after 5 failures in a row, 5/30s:key to do "
            "so for each key, or `none`",
            ctx,
            param,
        )
    return Breaker(failures=int(failures), pause=length(ctx, param, pause), per_key=bool(colon))


def _part_option(
    name: str, help_text: str, read: Callable[..., Any], metavar: str
) -> Callable[[Command], Command]:
    return click.option(name, metavar=metavar, callback=read, help=help_text)


@limits.command("set")
@limit_argument
@key_option
@_part_option("--total", "How many run at once; `none`: any number.", _number_or_none, "N")
@_part_option("--per-key", "How many of each key run at once, or of the key given.", _number_or_none, "N")
@_part_option(
    "--rate", "How many start in a length of time, such as 90/10s or 90/10s:5.", _rate_or_none, "RATE"
)
@_part_option("--rate-per-key", "The same for each key.", _rate_or_none, "RATE")
@_part_option(
    "--breaker",
    "After how many failures in a row to stop, and for how long, such as 5/30s or 5/30s:key.",
    _breaker_or_none,
    "BREAKER",
)
@click.option("--turns/--no-turns", default=None, help="Whether keys take turns.")
@click.option(
    "--weight", type=float, metavar="NUMBER", help="The key's share of the turns: 2 is twice as many."
)
@reason_option
@by_option
@where
@json_option
def set_(
    limit: str,
    *,
    key: str | None,
    total: int | str | None,
    per_key: int | str | None,
    rate: Rate | str | None,
    rate_per_key: Rate | str | None,
    breaker: Breaker | str | None,
    turns: bool | None,
    weight: float | None,
    reason: str | None,
    by: str,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Change what a limit allows, until it is reset: a deploy does not change it back."""
    named: dict[str, Any] = {
        "total": total,
        "per_key": per_key,
        "rate": rate,
        "rate_per_key": rate_per_key,
        "breaker": breaker,
    }
    given = {name: None if value == "none" else value for name, value in named.items() if value is not None}
    asked = [*given, *(["turns"] if turns is not None else []), *(["weight"] if weight is not None else [])]
    with opened(dsn, schema) as app:
        before = app.limits.show_sync(limit, key=key)
        status = app.limits.set_sync(
            limit, key=key, **given, turns=turns, weight=weight, by=by, reason=reason
        )
        after = app.limits.show_sync(limit, key=key)
    was, now = settings_of(before, key, asked), settings_of(after, key, asked)
    told = {**asdict(status), "was": was}
    _tell(
        told,
        f"{_named(limit, key)} is set: {changes(was, now)}; go back to what code says with: "
        f"{_reset(limit, key)}",
        as_json=as_json,
    )


@limits.command()
@limit_argument
@key_option
@reason_option
@by_option
@where
@json_option
def reset(
    limit: str,
    *,
    key: str | None,
    reason: str | None,
    by: str,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Forget what was set: what code declares counts again."""
    with opened(dsn, schema) as app:
        status = app.limits.reset_sync(limit, key=key, by=by, reason=reason)
    _tell(status, f"{_named(limit, key)} is as code declares it", as_json=as_json)


@limits.command()
@limit_argument
@key_option
@click.option(
    "--until",
    callback=read_until,
    metavar="TIME",
    help="When it opens by itself: a time, or a length from now such as 2h. Without it, it never does.",
)
@reason_option
@by_option
@where
@json_option
def close(
    limit: str,
    *,
    key: str | None,
    until: datetime | timedelta | str | None,
    reason: str | None,
    by: str,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Let no job of a limit start, or none of one key. Jobs that run go on."""
    with opened(dsn, schema) as app:
        status = app.limits.close_sync(limit, key=key, until=until, by=by, reason=reason)
    opening = f"holdfast limits open {limit}{'' if key is None else f' --key {key}'}"
    _tell(status, f"{_named(limit, key)} is closed; open it with: {opening}", as_json=as_json)


@limits.command("open")
@limit_argument
@key_option
@reason_option
@by_option
@where
@json_option
def open_(
    limit: str,
    *,
    key: str | None,
    reason: str | None,
    by: str,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Let jobs of a limit start again: also those that a breaker or a handler has stopped."""
    with opened(dsn, schema) as app:
        was_closed = app.limits.open_sync(limit, key=key, by=by, reason=reason)
    told = {"limit": limit, "key": key, "was_closed": was_closed}
    sentence = (
        f"{_named(limit, key)} is open"
        if was_closed
        else f"{_named(limit, key)} was not closed by hand; it is open"
    )
    _tell(told, sentence, as_json=as_json)


@limits.command()
@limit_argument
@click.option("--force", is_flag=True, help="Also while live workers run jobs whose code declares it.")
@reason_option
@by_option
@where
@json_option
def remove(
    limit: str, *, force: bool, reason: str | None, by: str, dsn: str | None, schema: Schema, as_json: bool
) -> None:
    """Take a limit away that code no longer declares: all that wait for it are free."""
    with opened(dsn, schema) as app:
        was_there = app.limits.remove_sync(limit, force=force, by=by, reason=reason)
    sentence = f'limit "{limit}" is removed' if was_there else f'limit "{limit}" was removed before'
    _tell({"limit": limit, "was_there": was_there}, sentence, as_json=as_json)


def _named(limit: str, key: str | None) -> str:
    return f'limit "{limit}"' if key is None else f'key "{key}" of limit "{limit}"'


def _reset(limit: str, key: str | None) -> str:
    return f"holdfast limits reset {limit}{'' if key is None else f' --key {key}'}"


def _tell(facts_: LimitStatus | dict[str, Any], sentence: str, *, as_json: bool) -> None:
    click.echo(told_as_json(facts_) if as_json else sentence)
