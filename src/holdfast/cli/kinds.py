"""`holdfast kinds`: what workers have declared of each kind of job."""

import click

from holdfast.app import App
from holdfast.cli import kinds_output as shown
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.listing import Listed, listing
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_facts, print_table
from holdfast.postgres.schema import Schema

kind_argument = click.argument("kind")


@click.group()
def kinds() -> None:
    """Show what workers have declared of each kind of job; forget kinds that code no longer has."""


@kinds.command("list")
@click.option("--after", metavar="KIND", help="Only kinds behind this name, for the next page.")
@listing(limit=1_000)
def list_(app: App, *, limit: int, after: str | None) -> Listed:
    """List kinds by name."""
    found = app.kinds.list_sync(after=after, limit=limit)
    return Listed(
        shown.COLUMNS,
        [shown.row(kind) for kind in found],
        items=found,
        empty="no kind is known: start a worker" if after is None else "there are no more kinds",
    )


@kinds.command()
@kind_argument
@where
@json_option
def show(kind: str, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one kind: its policy, its parameters, which of them are secret, which workers know it."""
    with opened(dsn, schema) as app:
        found = app.kinds.show_sync(kind)
    if as_json:
        click.echo(told_as_json(found))
        return
    print_facts((found.name, found.style), shown.facts(found))
    if found.parameters:
        click.echo("")
        print_table(shown.PARAMETER_HEADS, shown.parameter_rows(found), flexible=("TYPE",))


@kinds.command()
@kind_argument
@changing()
def forget(kind: str, *, change: Change) -> int:
    """Forget a kind that code no longer has. A worker that knows it stores it again when it starts."""
    change.say_where()
    refused = change.refused(f'forget the kind "{kind}", and what is secret in it')
    if refused is not None:
        return refused
    with opened(change.dsn, change.schema) as app:
        app.kinds.forget_sync(kind, by=change.by, reason=change.reason)
    sentence = f'the kind "{kind}" is forgotten: arguments of its jobs are masked as a whole'
    click.echo(told_as_json({"forgotten": kind}) if change.as_json else sentence)
    return Exit.OK
