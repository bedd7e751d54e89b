"""`holdfast failures`: what is going wrong, in groups of the same failure; retry and purge their dead
letters.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

import click

from holdfast.app import App
from holdfast.cli import failures_output as shown
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.options import length
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_table
from holdfast.cli.watching import rounds, watch_option
from holdfast.insights.failure_records import FailurePage
from holdfast.postgres.schema import Schema

fingerprint_argument = click.argument("fingerprint")
limit_option = click.option(
    "-n", "--limit", type=click.IntRange(1), help="At most so many, oldest first; without it, all of them."
)


@click.group()
def failures() -> None:
    """Show what is going wrong, in groups of the same failure; retry and purge a group."""


@failures.command("list")
@click.option("--kind", metavar="KIND", help="Only what failed in jobs of this kind.")
@click.option("--queue", metavar="QUEUE", help="Only what failed in this queue.")
@click.option(
    "--since",
    callback=length,
    default="24h",
    show_default=True,
    metavar="LENGTH",
    help="Only groups that failed within this time.",
)
@click.option("--frequent", is_flag=True, help="The one that failed most often first, not the newest.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many."
)
@click.option("--after", metavar="CURSOR", help="Continue where another list ended; it prints the cursor.")
@watch_option
@where
@json_option
def list_(
    *,
    kind: str | None,
    queue: str | None,
    since: timedelta,
    frequent: bool,
    limit: int,
    after: str | None,
    watch: bool,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """List groups of failures, the one that was seen last first."""
    with opened(dsn, schema) as app:
        for make_room in rounds(watch=watch):
            page = app.failures.list_sync(
                kind=kind,
                queue=queue,
                since=since,
                order="frequent" if frequent else "newest",
                after=after,
                limit=limit,
            )
            make_room()
            if as_json:
                click.echo(told_as_json(shown.page_facts(page)))
            else:
                _print(page, is_filtered=bool(kind or queue))


def _print(page: FailurePage, *, is_filtered: bool) -> None:
    if page.groups:
        print_table(shown.HEADS, shown.rows(page), flexible=shown.FLEXIBLE)
    else:
        click.echo("nothing has failed so" if is_filtered else "nothing has failed in this time")
    if page.next is not None:
        click.echo(f"more: --after {page.next}", err=True)


@failures.command()
@fingerprint_argument
@where
@json_option
def show(fingerprint: str, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one group with its latest dead letters and a traceback."""
    with opened(dsn, schema) as app:
        detail = app.failures.show_sync(fingerprint)
    if as_json:
        click.echo(told_as_json(shown.detail_facts(detail)))
        return
    click.echo(click.style(shown.first_line(str(detail.group)), bold=True))
    for what, words in shown.facts(detail):
        click.echo(f"  {what:<10}{words}")
    if detail.jobs:
        click.echo("")
        print_table(shown.JOB_HEADS, shown.job_rows(detail), flexible=shown.JOB_FLEXIBLE)
    for line in shown.traceback_lines(detail):
        click.echo(line)


@failures.command()
@fingerprint_argument
@limit_option
@changing()
def retry(fingerprint: str, *, limit: int | None, change: Change) -> int:
    """Run the dead letters of a group from their start, with all attempts and nothing saved."""
    return _act(
        "retry",
        fingerprint,
        limit,
        change,
        lambda app: app.failures.retry_sync(fingerprint, limit=limit, reason=change.reason, by=change.by),
    )


@failures.command()
@fingerprint_argument
@limit_option
@changing()
def purge(fingerprint: str, *, limit: int | None, change: Change) -> int:
    """Delete the dead letters of a group with all that is known of them."""
    return _act(
        "delete",
        fingerprint,
        limit,
        change,
        lambda app: app.failures.purge_sync(fingerprint, limit=limit, reason=change.reason, by=change.by),
    )


def _act(
    verb: str,
    fingerprint: str,
    limit: int | None,
    change: Change,
    acting: Callable[[App], Mapping[str, int]],
) -> int:
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        dead = app.failures.count_sync(fingerprint)
        counts: Mapping[str, int] = {}
        # Without dead letters there is nothing to confirm: the verb says whether the group is there.
        if dead.count:
            refused = change.refused(f"{verb} {shown.so_many(dead, limit)} of failure {fingerprint}")
            if refused is not None:
                return refused
        counts = acting(app)
    click.echo(told_as_json(counts) if change.as_json else shown.counted(counts))
    return Exit.OK if set(counts) <= {"retried", "deleted"} else Exit.FAILED
