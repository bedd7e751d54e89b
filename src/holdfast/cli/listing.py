"""What every command that lists things shares: how many, which page, `--watch`, and how it is printed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, TypeVar

import click

from holdfast.cli.changing import place
from holdfast.cli.formats import as_json
from holdfast.cli.options import WholeNumber
from holdfast.cli.shared_options import opened, where
from holdfast.cli.table import Columns, print_columns
from holdfast.cli.watching import rounds, watch_option
from holdfast.errors import ConnectionFailed, ConnectionLost, ServerUnable
from holdfast.postgres.schema import Schema
from holdfast.settings import Embedded, read_target

T = TypeVar("T")
Form = Literal["table", "json", "jsonl"]
Lister = Callable[..., "Listed"]
Command = Callable[..., None]

OUTAGES = (ConnectionFailed, ConnectionLost, ServerUnable)
"""What a restart of the database looks like from here."""

after_option = click.option(
    "--after", metavar="CURSOR", help="Continue where another list ended; it prints the cursor."
)


@dataclass(frozen=True, slots=True)
class Listed:
    """What a command has found. `items` are JSON values, a line each with `-o jsonl`; `whole` is the one
    value of `--json`, where that is more than a list of them. `empty` is said if there are none, `note` below
    them. `next` is the cursor of the page that follows.
    """

    columns: Columns
    rows: Sequence[Sequence[str]]
    items: Sequence[object]
    empty: str
    whole: object = None
    note: str | None = None
    next: str | None = None


def listing(*, limit: int | None = 20) -> Callable[[Lister], Command]:
    """Makes a command of a function that takes an App and the command's own options, and returns what it has
    found. Adds --watch, -o, --json, --dsn and --schema; and -n, unless `limit` is None.
    """

    def decorated(lister: Lister) -> Command:
        @watch_option
        @where
        @click.option(
            "-o",
            "--output",
            type=click.Choice(("table", "json", "jsonl")),
            default="table",
            help="A table (the default), one JSON value, or a JSON value in each line.",
        )
        @click.option("--json", "as_json", is_flag=True, help="Print JSON, as -o json does.")
        @wraps(lister)
        def command(
            *args: Any,
            watch: bool,
            dsn: str | None,
            schema: Schema,
            output: Form,
            as_json: bool,
            **own: Any,
        ) -> None:
            form: Form = "json" if as_json else output
            with opened(dsn, schema) as app:
                for found in each_round(lambda: lister(app, *args, **own), watch=watch):
                    _print(found, form)
                    if not found.items and not watch:
                        _say_where(dsn, schema)

        return command if limit is None else limit_option(limit)(command)

    return decorated


def limit_option(default: int) -> Callable[[Command], Command]:
    return click.option(
        "-n", "--limit", type=WholeNumber(1, 10_000), default=default, show_default=True, help="How many."
    )


def each_round(ask: Callable[[], T], *, watch: bool) -> Iterator[T]:
    """Asks once, or every two seconds. A list that is watched outlives a restart of the database,
    and says so.
    """
    has_answered = False
    for make_room in rounds(watch=watch):
        try:
            found = ask()
        except OUTAGES as error:
            if not has_answered:
                raise
            click.echo(f"holdfast: {' '.join(str(error).split())}; trying again", err=True)
            continue
        has_answered = True
        make_room()
        yield found


def _say_where(dsn: str | None, schema: Schema) -> None:
    """Each directory has a private server of its own: an empty one is often the wrong one."""
    target = read_target(dsn)
    if isinstance(target, Embedded):
        click.echo(f"holdfast: this is {place(target, schema)}", err=True)


def _print(found: Listed, form: Form) -> None:
    if form == "json":
        click.echo(as_json(found.items if found.whole is None else found.whole))
        return
    if form == "jsonl":
        for item in found.items:
            click.echo(as_json(item))
    elif found.rows:
        print_columns(found.columns, found.rows)
    elif found.note is None:
        click.echo(found.empty)
    if form == "table" and found.note is not None:
        click.echo(found.note)
    if found.next is not None:
        click.echo(f"more: --after {found.next}", err=True)
