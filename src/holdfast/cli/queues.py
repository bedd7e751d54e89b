"""`holdfast queues`: what waits and runs in each queue; pause and resume."""

from datetime import datetime

import click

from holdfast.app import App
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import length, moment
from holdfast.cli.listing import Listed, listing
from holdfast.cli.operations import by_option
from holdfast.cli.shared_options import json_option, opened, read_until, where
from holdfast.cli.state_look import Cell, marked
from holdfast.cli.table import Columns
from holdfast.insights.queue_records import QueueStatus
from holdfast.postgres.schema import Schema

COLUMNS = Columns(("QUEUE", "WAITING", "OLDEST", "RUNNING", "WORKERS", "STATE"), flexible=("STATE", "QUEUE"))

queue_argument = click.argument("queue")


@click.group()
def queues() -> None:
    """Show what waits and runs in each queue; pause and resume queues."""


@queues.command("list")
@listing(limit=None)
def list_(app: App) -> Listed:
    """List queues that are paused, that a worker serves, or that have jobs."""
    found = app.queues.list_sync()
    return Listed(
        COLUMNS,
        [_row(queue) for queue in found],
        items=found,
        empty="there are no queues: enqueue a job, or start a worker",
    )


@queues.command()
@queue_argument
@click.option("--note", metavar="TEXT", help="Why, for those who look at it later.")
@click.option(
    "--until",
    callback=read_until,
    metavar="TIME",
    help="When the pause ends: a time, or a length from now such as 2h. Without it, it never ends by itself.",
)
@click.option("--create", is_flag=True, help="Accept a name that no job, schedule or worker uses yet.")
@by_option
@where
@json_option
def pause(
    queue: str,
    *,
    note: str | None,
    until: datetime | str | None,
    create: bool,
    by: str,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Let no worker take jobs from a queue. Jobs that run go on."""
    with opened(dsn, schema) as app:
        status = app.queues.pause_sync(queue, note=note, until=until, create=create, by=by)
    end = f" until {moment(status.paused_until)} UTC" if status.paused_until else ""
    _tell(
        status,
        f'queue "{queue}" is paused{end}; resume it with: holdfast queues resume {queue}',
        as_json=as_json,
    )


@queues.command()
@queue_argument
@click.option("--reason", metavar="TEXT", help="Why, for the audit.")
@by_option
@where
@json_option
def resume(
    queue: str, *, reason: str | None, by: str, dsn: str | None, schema: Schema, as_json: bool
) -> None:
    """Let workers take jobs from a paused queue again."""
    with opened(dsn, schema) as app:
        was_paused = app.queues.resume_sync(queue, reason=reason, by=by)
    sentence = f'queue "{queue}" is resumed' if was_paused else f'queue "{queue}" was not paused'
    _tell({"queue": queue, "was_paused": was_paused}, sentence, as_json=as_json)


def _row(queue: QueueStatus) -> tuple[str, ...]:
    return (
        queue.name,
        queue.waiting_text,
        length(queue.oldest_age),
        f"{queue.running:,}",
        str(queue.workers),
        _state(queue),
    )


def _state(queue: QueueStatus) -> str:
    """What an operator should know first."""
    if queue.is_paused:
        note = f": {queue.note}" if queue.note else ""
        if queue.paused_until is None:
            return marked("paused", note)
        shown = marked("paused", f" until {moment(queue.paused_until)} UTC{note}")
        rest = "" if queue.pause_left is None else f" for another {length(queue.pause_left)}"
        return Cell(shown, shown.style, on_terminal=marked("paused", f"{rest}{note}"))
    return Cell("no worker", "yellow") if queue.workers == 0 and queue.waiting else ""


def _tell(facts: object, sentence: str, *, as_json: bool) -> None:
    click.echo(told_as_json(facts) if as_json else sentence)
