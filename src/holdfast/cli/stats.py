"""`holdfast stats`: how much was done, how long it waited and took, by kind and queue or over time."""

from datetime import timedelta

import click

from holdfast.cli import stats_output as shown
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.listing import each_round
from holdfast.cli.misspelt import misspelt
from holdfast.cli.options import length
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_columns
from holdfast.cli.watching import watch_option
from holdfast.insights.queue_records import QueueStatus
from holdfast.insights.stats_records import Stats
from holdfast.postgres.schema import Schema


def _optional_length(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    return None if value is None else length(ctx, param, value)


@click.command()
@click.option(
    "--since",
    callback=length,
    default="1h",
    show_default=True,
    metavar="LENGTH",
    help="The time up to now that is counted: up to 90d.",
)
@click.option("--queue", metavar="QUEUE", help="Only what went through this queue.")
@click.option("--kind", metavar="KIND", help="Only jobs of this kind.")
@click.option("--over-time", is_flag=True, help="A line for each piece of time, not for each kind and queue.")
@click.option(
    "--resolution",
    callback=_optional_length,
    metavar="LENGTH",
    help="How long a piece of time is: minutes for up to 24h, hours for more.",
)
@watch_option
@where
@json_option
def stats(
    *,
    since: timedelta,
    queue: str | None,
    kind: str | None,
    over_time: bool,
    resolution: timedelta | None,
    watch: bool,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """Show how many jobs came and ended, how long they waited and took, and what waits now."""
    with opened(dsn, schema) as app:

        def asked() -> tuple[Stats, list[QueueStatus]]:
            found = app.stats_sync(since, resolution=resolution, queue=queue, kind=kind)
            depths = [] if kind else app.queues.list_sync()
            return found, [each for each in depths if queue in (None, each.name)]

        for found, depths in each_round(asked, watch=watch):
            if as_json:
                click.echo(told_as_json(shown.facts(found, depths)))
            elif over_time:
                _print_over_time(found)
            else:
                _print(found, depths)
            if not found.kinds and not as_json:
                for hint in misspelt(app, kind=kind, queue=queue):
                    click.echo(hint)


def _print(found: Stats, depths: list[QueueStatus]) -> None:
    click.echo(shown.title(found))
    click.echo("")
    if found.kinds:
        print_columns(shown.KINDS, shown.kind_rows(found))
    else:
        click.echo("nothing has happened in this time")
    rows = shown.queue_rows(found, depths)
    if rows:
        click.echo("")
        print_columns(shown.QUEUES, rows)


def _print_over_time(found: Stats) -> None:
    click.echo(shown.title(found))
    click.echo("")
    print_columns(shown.POINTS, shown.point_rows(found))
