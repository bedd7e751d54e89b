"""`holdfast audit`: who did what, and why."""

import click

from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import moment
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_table
from holdfast.cli.watching import rounds, watch_option
from holdfast.insights.audit import AuditEntry, AuditPage
from holdfast.postgres.schema import Schema

HEADS = ("WHEN (UTC)", "BY", "ACTION", "TARGET", "RESULT", "REASON")
FLEXIBLE = ("BY", "ACTION", "TARGET", "RESULT", "REASON")


@click.command()
@click.option("--by", metavar="NAME", help="Only what this operator did.")
@click.option("--action", metavar="ACTION", help="Only this action, such as cancel or move.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many."
)
@click.option("--after", metavar="CURSOR", help="Continue where another list ended; it prints the cursor.")
@watch_option
@where
@json_option
def audit(
    *,
    by: str | None,
    action: str | None,
    limit: int,
    after: str | None,
    watch: bool,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """List what operators did to jobs and kinds, newest first: who, what, to which, and why."""
    with opened(dsn, schema) as app:
        for make_room in rounds(watch=watch):
            page = app.audit.list_sync(by=by, action=action, after=after, limit=limit)
            make_room()
            if as_json:
                facts = {"entries": page.entries, "next": page.next, "searched": page.searched}
                click.echo(told_as_json(facts))
            else:
                _print(page, is_narrowed=by is not None or action is not None or after is not None)


def _print(page: AuditPage, *, is_narrowed: bool) -> None:
    if page.entries:
        print_table(HEADS, [_row(entry) for entry in page.entries], flexible=FLEXIBLE)
    if page.searched is not None:
        click.echo(f"{len(page.entries):,} found among {page.searched:,} entries: there may be older ones")
    elif not page.entries:
        click.echo("no entry matches" if is_narrowed else "nobody has done anything yet")
    if page.next is not None:
        click.echo(f"more: --after {page.next}", err=True)


def _row(entry: AuditEntry) -> tuple[str, ...]:
    return (
        moment(entry.at),
        entry.by,
        entry.action,
        entry.target,
        ", ".join(f"{count:,} {answer}" for answer, count in sorted(entry.counts.items())),
        entry.reason or "",
    )
