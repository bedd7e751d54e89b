"""The options that `holdfast worker`, `holdfast dev` and the process of the latter share."""

from collections.abc import Mapping
from datetime import timedelta

import click

from holdfast.cli.options import length
from holdfast.errors import InvalidInput
from holdfast.worker.options import WorkerOptions
from holdfast.worker.queue_choice import SLOTS

LEVELS = ("debug", "info", "warning", "error")
_SHORTEST_LEASE = timedelta(seconds=1)


def read_queues(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> Mapping[str, int | None] | None:
    """`mail=20,default` as a mapping; None for a queue without a number, where one may be left out."""
    if value is None:
        return None
    queues: dict[str, int | None] = {}
    for part in value.split(","):
        name, equals, slots = (piece.strip() for piece in part.partition("="))
        is_left_out = not equals and param.name == "queues"
        if not is_left_out and not (slots.isascii() and slots.isdigit()):
            raise click.BadParameter(
                f"{part.strip()!r}: give a whole number of jobs at once, such as mail=20", ctx, param
            )
        if name in queues:
            raise click.BadParameter(f"queue {name!r} is named twice", ctx, param)
        queues[name] = int(slots) if equals else None
    try:
        WorkerOptions(queues={name: 1 if number is None else number for name, number in queues.items()})
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return queues


def read_lease(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    read = length(ctx, param, value)
    if read < _SHORTEST_LEASE:
        raise click.BadParameter(f"{value!r} is too short: give at least 1s", ctx, param)
    return read


app_option = click.option(
    "-A", "--app", "reference", required=True, metavar="MODULE:ATTRIBUTE", help="Which App: shop.jobs:app."
)
queues_option = click.option(
    "-q",
    "--queues",
    callback=read_queues,
    metavar="NAME[=N],…",
    help=f"Which queues, and how many jobs of each run at once in a process (--slots, else {SLOTS}): "
    "mail=20,default.  [default: the queues of the app's jobs]",
)
log_level_option = click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="The lowest level that is logged.",
)
