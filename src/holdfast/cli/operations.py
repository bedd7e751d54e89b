"""`holdfast operations`: one action on all jobs that match a filter, with a preview and progress."""

from collections.abc import Iterator, Sequence

import click

from holdfast.app import App
from holdfast.cli.bulk import act_on_all, counted, told
from holdfast.cli.changing import Change, changing, operator
from holdfast.cli.filters import read_filter
from holdfast.cli.formats import age, distance, how_many, length, moment
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.listing import Listed, listing
from holdfast.cli.options import WholeNumber
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.state_look import Cell, marked
from holdfast.cli.table import Columns, print_facts
from holdfast.insights.bulk_actions import ACTIONS, ActionName
from holdfast.insights.operation_steps import Operation
from holdfast.postgres.schema import Schema

COLUMNS = Columns(
    (
        "ID",
        "STATE",
        "ACTION",
        "FILTER",
        "SEEN",
        "RESULT",
        "BY",
        Cell("BEGAN (UTC)", on_terminal="BEGAN"),
    ),
    flexible=("BY", "FILTER", "RESULT", "ACTION"),
    spare=("SEEN",),
)

operation_argument = click.argument("operation", type=WholeNumber(1), metavar="ID")


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
@click.option(
    "--create", is_flag=True, help="For move: accept a queue that no job, schedule or worker uses yet."
)
@click.option("--priority", type=WholeNumber(0, 9), help="0 (most urgent) to 9: for reprioritise.")
@click.option("--when", metavar="TIME", help="A time, or a length from now such as 2h: for reschedule.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@changing()
def start(
    action: ActionName,
    *,
    terms: Sequence[str],
    queue: str | None,
    create: bool,
    priority: int | None,
    when: str | None,
    dry_run: bool,
    change: Change,
) -> int:
    """Do something with all jobs that match a filter: `start cancel state:ready kind:pay`. Shows how many
    there are first, and asks. If you interrupt it, the leader goes on; stop it with `holdfast operations
    stop`.
    """
    given = {"queue": queue, "priority": priority, "when": when}
    parameters = {name: value for name, value in given.items() if value is not None} | {"create": create}
    return act_on_all(change, action, read_filter(terms), parameters, is_dry_run=dry_run)


@operations.command("list")
@click.option("--before", type=WholeNumber(1), metavar="ID", help="Only operations before this id.")
@listing()
def list_(app: App, *, limit: int, before: int | None) -> Listed:
    """List operations, newest first."""
    found = app.operations.list_sync(before=before, limit=limit)
    return Listed(
        COLUMNS,
        [_row(each) for each in found],
        items=found,
        empty="there are no operations" if before is None else "there are no more operations",
    )


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
    title = (f"operation {found.id}", _state(found), f"{_action(found)} on {found.filter}")
    print_facts(title, _facts(found))


@operations.command()
@operation_argument
@click.option("--reason", metavar="TEXT", help="Why, for the audit.")
@by_option
@where
@json_option
def stop(
    operation: int, *, reason: str | None, by: str, dsn: str | None, schema: Schema, as_json: bool
) -> None:
    """Stop an operation after the batch under way. What it did stays done."""
    with opened(dsn, schema) as app:
        found = app.operations.stop_sync(operation, reason=reason, by=by)
    click.echo(told_as_json(found) if as_json else told(found))


def _facts(operation: Operation) -> Iterator[tuple[str, str]]:
    yield "by", operation.by + (f", {operation.reason}" if operation.reason else "")
    yield "began", f"{moment(operation.created_at)} UTC, {distance(operation.created_at, operation.now)}"
    if operation.ended_at is not None:
        took = length(operation.ended_at - operation.created_at)
        yield "ended", f"{moment(operation.ended_at)} UTC, after {took}"
    yield "seen", how_many(operation.seen, "job")
    yield "result", counted(operation) or "no job was concerned"


def _state(operation: Operation) -> Cell:
    return marked(operation.state)


def _row(operation: Operation) -> tuple[str, ...]:
    return (
        str(operation.id),
        _state(operation),
        _action(operation),
        operation.filter,
        f"{operation.seen:,}",
        counted(operation),
        operation.by,
        age(operation.created_at, operation.now),
    )


def _action(operation: Operation) -> str:
    return operation.action + "".join(f" {name}={value}" for name, value in operation.parameters.items())
