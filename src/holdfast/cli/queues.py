"""`holdfast queues`: what waits and runs in each queue; pause and resume."""

from datetime import datetime

import click

from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import length, moment
from holdfast.cli.operations import by_option
from holdfast.cli.shared_options import json_option, opened, read_until, where
from holdfast.cli.table import print_table
from holdfast.cli.watching import rounds, watch_option
from holdfast.postgres.schema import Schema
from holdfast.queue_operators import QueueStatus

HEADS = ("QUEUE", "WAITING", "OLDEST", "RUNNING", "WORKERS", "STATE")

queue_argument = click.argument("queue")


@click.group()
def queues() -> None:
    """Show what waits and runs in each queue; pause and resume queues."""


@queues.command("list")
@watch_option
@where
@json_option
def list_(*, watch: bool, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """List queues that are paused, that a worker serves, or that have jobs."""
    with opened(dsn, schema) as app:
        for make_room in rounds(watch=watch):
            found = app.queues.list_sync()
            make_room()
            if as_json:
                click.echo(told_as_json(found))
            elif found:
                print_table(HEADS, [_row(queue) for queue in found], flexible=("QUEUE", "STATE"))
            else:
                click.echo("there are no queues: enqueue a job, or start a worker")


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
@by_option
@where
@json_option
def resume(queue: str, *, by: str, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Let workers take jobs from a paused queue again."""
    with opened(dsn, schema) as app:
        was_paused = app.queues.resume_sync(queue, by=by)
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
        end = f" until {moment(queue.paused_until)} UTC" if queue.paused_until else ""
        return f"‖ paused{end}" + (f": {queue.note}" if queue.note else "")
    return "no worker" if queue.workers == 0 and queue.waiting else ""


def _tell(facts: object, sentence: str, *, as_json: bool) -> None:
    click.echo(told_as_json(facts) if as_json else sentence)
