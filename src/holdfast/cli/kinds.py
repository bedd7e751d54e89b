"""`holdfast kinds`: what workers have declared of each kind of job."""

import click

from holdfast.cli import kinds_output as shown
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_table
from holdfast.cli.watching import rounds, watch_option
from holdfast.postgres.schema import Schema

kind_argument = click.argument("kind")


@click.group()
def kinds() -> None:
    """Show what workers have declared of each kind of job; forget kinds that code no longer has."""


@kinds.command("list")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=1_000, show_default=True, help="How many."
)
@click.option("--after", metavar="KIND", help="Only kinds behind this name, for the next page.")
@watch_option
@where
@json_option
def list_(
    *, limit: int, after: str | None, watch: bool, dsn: str | None, schema: Schema, as_json: bool
) -> None:
    """List kinds by name."""
    with opened(dsn, schema) as app:
        for make_room in rounds(watch=watch):
            found = app.kinds.list_sync(after=after, limit=limit)
            make_room()
            if as_json:
                click.echo(told_as_json(found))
            elif found:
                print_table(shown.HEADS, [shown.row(kind) for kind in found], flexible=shown.FLEXIBLE)
            else:
                click.echo("no kind is known: start a worker")


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
    click.echo(f"{click.style(found.name, bold=True)}  {found.style}")
    for what, words in shown.facts(found):
        click.echo(f"  {what:<10}{words}")
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
