"""`holdfast top`: a live view of queues, running jobs, failures and workers that an operator leaves open."""

import signal
import sys
from contextlib import suppress
from datetime import timedelta
from types import FrameType

import click

from holdfast.app import App
from holdfast.cli.changing import place_of
from holdfast.cli.exit_codes import Exit
from holdfast.cli.options import length
from holdfast.cli.shared_options import opened, where
from holdfast.cli.table import print_columns, print_words
from holdfast.cli.terminal import is_terminal
from holdfast.cli.top_panels import PANELS, RATE_OF, Snapshot, summary, warnings
from holdfast.postgres.schema import Schema

_LEAST = timedelta(milliseconds=200)


def _interval(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    read = length(ctx, param, value)
    if read < _LEAST:
        raise click.BadParameter("give at least 200ms", ctx, param)
    return read


@click.command()
@click.option(
    "--interval",
    callback=_interval,
    default="2s",
    show_default=True,
    metavar="LENGTH",
    help="How often the database is asked.",
)
@click.option("--once", is_flag=True, help="Print one view and end, as it does where there is no terminal.")
@where
def top(*, interval: timedelta, once: bool, dsn: str | None, schema: Schema) -> int:
    """Watch queues, running jobs, failures and workers on the whole screen. q quits, p pauses, Tab and the
    arrows choose a panel and its order.
    """
    place = place_of(dsn, schema)
    if once or not is_terminal() or not is_terminal(sys.stdin):
        with opened(dsn, schema) as app:
            _print(ask(app))
        return Exit.OK
    from holdfast.cli.top_screen import watch

    # Ended from outside, it has to leave the terminal as it was.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    with opened(dsn, schema) as app, suppress(KeyboardInterrupt):  # which is a way to quit
        watch(lambda: ask(app), place=place, interval=interval)
    return Exit.OK


def ask(app: App) -> Snapshot:
    return Snapshot(app.overview_sync(), app.stats_sync(RATE_OF), app.workers.list_sync())


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _print(snapshot: Snapshot) -> None:
    print_words(summary(snapshot))
    for sentence in warnings(snapshot):
        print_words([sentence])
    for panel in PANELS:
        click.echo("")
        rows = panel.rows(snapshot, 0)
        if rows:
            print_columns(panel.columns, rows)
        else:
            click.echo(panel.empty)
