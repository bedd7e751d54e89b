"""`holdfast operations`: one action on all jobs that match a filter, with a preview and progress."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from holdfast.cli.changing import operator, place_of
from holdfast.cli.exit_codes import Exit, refuse
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import moment
from holdfast.cli.jobs import read_filter
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_table
from holdfast.insights.bulk_actions import ACTIONS, ActionName
from holdfast.insights.operation_steps import Operation, Preview
from holdfast.postgres.schema import Schema

HEADS = ("ID", "STATE", "ACTION", "FILTER", "SEEN", "RESULT", "BY", "BEGAN (UTC)")

operation_argument = click.argument("operation", type=click.IntRange(1), metavar="ID")


by_option = click.option(
    "--by", default=operator, metavar="NAME", help="Who acts; by default this user and host."
)


@click.group()
def operations() -> None:
    """Act on all jobs that match a filter; follow and stop such operations."""


@operations.command()
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("terms", nargs=-1, required=True, metavar="FILTER…")
@click.option("--queue", metavar="QUEUE", help="Where to: for move.")
@click.option("--priority", type=click.IntRange(0, 9), help="0 (most urgent) to 9: for reprioritise.")
@click.option("--when", metavar="TIME", help="A time, or a length from now such as 2h: for reschedule.")
@click.option("--reason", metavar="TEXT", help="Why, for the audit.")
@by_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@where
@json_option
def start(
    action: ActionName,
    *,
    terms: Sequence[str],
    queue: str | None,
    priority: int | None,
    when: str | None,
    reason: str | None,
    by: str,
    yes: bool,
    dry_run: bool,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> int:
    """Do something with all jobs that match a filter: `start cancel state:ready kind:pay`. Shows how many
    there are first, and asks. If you interrupt it, the leader goes on; stop it with `holdfast operations
    stop`.
    """
    job_filter = read_filter(terms)
    given = {"queue": queue, "priority": priority, "when": when}
    parameters = {name: value for name, value in given.items() if value is not None}
    with opened(dsn, schema) as app:
        click.echo(f"holdfast: {place_of(dsn, schema)}", err=True)
        preview = app.operations.preview_sync(action, job_filter, **parameters)
        if not as_json or not yes:
            click.echo(_worded(action, preview), err=True)
        if dry_run:
            if as_json:
                click.echo(told_as_json(preview))
            return Exit.OK
        if not yes:
            if not sys.stdin.isatty():
                return refuse("give --yes to do it")
            if not click.confirm("continue?", err=True):
                return refuse("nothing was changed")
        begun = app.operations.start_sync(action, job_filter, by=by, reason=reason, **parameters)
        try:
            done = app.operations.finish_sync(begun.id, on_progress=_show_progress)
        except KeyboardInterrupt:
            click.echo("", err=True)
            click.echo(f"the leader goes on; stop it with: holdfast operations stop {begun.id}", err=True)
            raise
    _end_progress()
    click.echo(told_as_json(done) if as_json else f"operation {done.id} is {done.state}: {_counted(done)}")
    return Exit.OK


@operations.command("list")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many."
)
@click.option("--before", type=click.IntRange(1), metavar="ID", help="Only operations before this id.")
@where
@json_option
def list_(*, limit: int, before: int | None, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """List operations, newest first."""
    with opened(dsn, schema) as app:
        found = app.operations.list_sync(before=before, limit=limit)
    if as_json:
        click.echo(told_as_json(found))
    elif found:
        print_table(HEADS, [_row(each) for each in found], flexible=("FILTER", "RESULT", "BY"))
    else:
        click.echo("there are no operations")


@operations.command()
@operation_argument
@where
@json_option
def show(operation: int, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one operation: what it does, how far it came, what it did."""
    with opened(dsn, schema) as app:
        found = app.operations.show_sync(operation)
    if as_json:
        click.echo(told_as_json(found))
        return
    click.echo(f"operation {found.id} is {found.state}: {_action(found)} on {found.filter}")
    click.echo(f"  by        {found.by}" + (f", {found.reason}" if found.reason else ""))
    click.echo(f"  began     {moment(found.created_at)} UTC")
    if found.ended_at is not None:
        click.echo(f"  ended     {moment(found.ended_at)} UTC")
    click.echo(f"  result    {_counted(found)}")


@operations.command()
@operation_argument
@by_option
@where
@json_option
def stop(operation: int, *, by: str, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Stop an operation after the batch under way. What it did stays done."""
    with opened(dsn, schema) as app:
        found = app.operations.stop_sync(operation, by=by)
    click.echo(
        told_as_json(found) if as_json else f"operation {found.id} is {found.state}: {_counted(found)}"
    )


def _worded(action: str, preview: Preview) -> str:
    number = f"{preview.eligible:,}{'+' if preview.is_capped else ''}"
    skipped = ", ".join(f"{count:,} {state}" for state, count in sorted(preview.skipped.items()))
    return f"{action} would concern {number} jobs" + (f"; others that match: {skipped}" if skipped else "")


def _row(operation: Operation) -> tuple[str, ...]:
    return (
        str(operation.id),
        operation.state,
        _action(operation),
        operation.filter,
        f"{operation.seen:,}",
        _counts(operation.counts),
        operation.by,
        moment(operation.created_at),
    )


def _action(operation: Operation) -> str:
    return operation.action + "".join(f" {name}={value}" for name, value in operation.parameters.items())


def _counted(operation: Operation) -> str:
    return _counts(operation.counts) or "no job was concerned"


def _counts(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{count:,} {answer}" for answer, count in sorted(counts.items()))


def _show_progress(operation: Operation) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{operation.seen:,} jobs looked at", err=True, nl=False)


def _end_progress() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
