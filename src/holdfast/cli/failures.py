"""`holdfast failures`: what is going wrong, in groups of the same failure; retry and purge their dead
letters.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

import click

from holdfast.app import App
from holdfast.cli import failures_output as shown
from holdfast.cli import jobs_output as jobs
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.listing import Listed, after_option, listing
from holdfast.cli.misspelt import misspelt
from holdfast.cli.options import WholeNumber, length
from holdfast.cli.progress import progress
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_columns, print_facts
from holdfast.insights.failures import Progress
from holdfast.postgres.schema import Schema

fingerprint_argument = click.argument("fingerprint")
limit_option = click.option(
    "-n", "--limit", type=WholeNumber(1), help="At most so many, newest first; without it, all of them."
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
@after_option
@listing()
def list_(
    app: App,
    *,
    kind: str | None,
    queue: str | None,
    since: timedelta,
    frequent: bool,
    limit: int,
    after: str | None,
) -> Listed:
    """List groups of failures, the one that was seen last first."""
    page = app.failures.list_sync(
        kind=kind,
        queue=queue,
        since=since,
        order="frequent" if frequent else "newest",
        after=after,
        limit=limit,
    )
    hints = () if page.groups else misspelt(app, kind=kind, queue=queue)
    nothing = "nothing has failed so" if kind or queue else "nothing has failed in this time"
    return Listed(
        shown.COLUMNS,
        shown.rows(page),
        items=page.groups,
        empty="\n".join((nothing, *hints)),
        whole={"groups": page.groups, "next": page.next},
        next=page.next,
    )


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
    print_facts([shown.first_line(str(detail.group))], shown.facts(detail))
    if detail.jobs:
        click.echo("")
        print_columns(jobs.COLUMNS, jobs.rows(detail.jobs, detail.now))
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
        lambda app, on_progress: app.failures.retry_sync(
            fingerprint, limit=limit, reason=change.reason, by=change.by, on_progress=on_progress
        ),
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
        lambda app, on_progress: app.failures.purge_sync(
            fingerprint, limit=limit, reason=change.reason, by=change.by, on_progress=on_progress
        ),
    )


def _act(
    verb: str,
    fingerprint: str,
    limit: int | None,
    change: Change,
    acting: Callable[[App, Progress], Mapping[str, int]],
) -> int:
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        dead = app.failures.count_sync(fingerprint)
        # Without dead letters there is nothing to confirm: the verb says whether the group is there.
        if dead.count:
            refused = change.refused(f"{verb} {shown.so_many(dead, limit)} of failure {fingerprint}")
            if refused is not None:
                return refused
        with progress(verb, total=shown.how_many(dead, limit), unit="dead letters") as bar:
            counts = acting(app, lambda counts: bar.at(sum(counts.values())))
    click.echo(told_as_json(counts) if change.as_json else shown.counted(counts))
    return Exit.OK if set(counts) <= {"retried", "deleted"} else Exit.FAILED
