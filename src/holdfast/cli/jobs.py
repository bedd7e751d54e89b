"""`holdfast jobs`: which jobs there are, what became of one, and why it is not running. `job_actions` adds
what operators do with them.
"""

from collections.abc import Sequence

import click

from holdfast.cli import jobs_output as shown
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.job_actions import VERBS
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_table
from holdfast.cli.watching import rounds, watch_option
from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import JobFilter
from holdfast.errors import InvalidFilter
from holdfast.insights.job_records import JobPage
from holdfast.postgres.schema import Schema

job_argument = click.argument("job", type=click.IntRange(1), metavar="ID")


@click.group()
def jobs() -> None:
    """Look at jobs and act on them: list, show, explain; cancel, retry, rerun, move and more."""


for verb in VERBS:
    jobs.add_command(verb)


@jobs.command("list")
@click.argument("terms", nargs=-1, metavar="[FILTER]…")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many."
)
@click.option("--after", metavar="CURSOR", help="Continue where another list ended; it prints the cursor.")
@watch_option
@where
@json_option
def list_(
    *,
    terms: Sequence[str],
    limit: int,
    after: str | None,
    watch: bool,
    dsn: str | None,
    schema: Schema,
    as_json: bool,
) -> None:
    """List jobs, newest first: all, or those that match a filter: `state:failed kind:pay created:<1h`."""
    job_filter = read_filter(terms)
    with opened(dsn, schema) as app:
        for make_room in rounds(watch=watch):
            page = app.jobs.list_sync(job_filter, after=after, limit=limit)
            make_room()
            if as_json:
                click.echo(told_as_json(shown.page_facts(page)))
            else:
                _print(page, job_filter)


@jobs.command()
@job_argument
@where
@json_option
def show(job: int, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one job in full: its runs and errors, its arguments, its result, the jobs that it called."""
    with opened(dsn, schema) as app:
        detail = app.jobs.show_sync(job)
        explanation = app.jobs.explain_sync(job)
    if as_json:
        click.echo(told_as_json(shown.detail_facts(detail)))
        return
    click.echo(f"{click.style(f'{detail.summary.kind} {job}', bold=True)}  {shown.marked(detail.summary)}")
    for what, words in shown.facts(detail, explanation):
        click.echo(f"  {what:<10}{words}")
    if detail.runs:
        click.echo("")
        print_table(shown.RUN_HEADS, shown.run_rows(detail), flexible=("ERROR",))
    if detail.children:
        click.echo("")
        print_table(shown.HEADS, shown.rows(detail.children, detail.now), flexible=shown.FLEXIBLE)
    for line in shown.traceback_lines(detail):
        click.echo(line)


@jobs.command()
@job_argument
@where
@json_option
def explain(job: int, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Say why a job is not running, and what to do about it. For a job that has ended: how."""
    with opened(dsn, schema) as app:
        explanation = app.jobs.explain_sync(job)
    if as_json:
        click.echo(told_as_json(explanation))
        return
    click.echo(explanation.sentence)
    if explanation.advice:
        click.echo(explanation.advice)


def read_filter(terms: Sequence[str]) -> JobFilter:
    """The filter that the shell has split into arguments. The shell takes quotes away: in an argument that
    cannot be read as it is, all behind the first colon is one value.
    """
    given = " ".join(terms)
    try:
        return parse_filter(given)
    except InvalidFilter as error:
        quoted = " ".join(_quoted(term) for term in terms)
        try:
            return parse_filter(quoted)
        except InvalidFilter:
            raise error from None


def _quoted(term: str) -> str:
    word, colon, value = term.partition(":")
    if not colon or not any(c.isspace() for c in value) or '"' in value:
        return term
    return f'{word}:"{value}"'


def _print(page: JobPage, job_filter: JobFilter) -> None:
    if page.jobs:
        print_table(shown.HEADS, shown.rows(page.jobs, page.now), flexible=shown.FLEXIBLE)
    if page.searched is not None:
        click.echo(f"{len(page.jobs):,} found among {page.searched:,} jobs: there may be older ones")
    elif not page.jobs:
        click.echo("no job matches this filter" if job_filter else "there are no jobs: enqueue one")
    if page.next is not None:
        click.echo(f"more: --after {page.next}", err=True)
