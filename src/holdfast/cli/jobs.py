"""`holdfast jobs`: which jobs there are, what became of one, and why it is not running. `job_actions` adds
what operators do with them.
"""

from collections.abc import Sequence

import click

from holdfast.app import App
from holdfast.cli import jobs_output as shown
from holdfast.cli.filters import read_filter
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.job_actions import VERBS
from holdfast.cli.listing import Listed, after_option, listing
from holdfast.cli.options import WholeNumber
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_columns, print_facts
from holdfast.cli.tail import tail
from holdfast.cli.terminal import in_lines, visible
from holdfast.cli.wording import spoken
from holdfast.postgres.schema import Schema

job_argument = click.argument("job", type=WholeNumber(1), metavar="ID")


@click.group()
def jobs() -> None:
    """Look at jobs and act on them: list, show, explain, tail; cancel, retry, rerun, move and more."""


for verb in (*VERBS, tail):
    jobs.add_command(verb)


@jobs.command("list")
@click.argument("terms", nargs=-1, metavar="[FILTER]…")
@after_option
@listing()
def list_(app: App, *, terms: Sequence[str], limit: int, after: str | None) -> Listed:
    """List jobs, newest first: all, or those that match a filter: `state:failed kind:pay created:<1h`."""
    job_filter = read_filter(terms)
    page = app.jobs.list_sync(job_filter, after=after, limit=limit)
    return Listed(
        shown.COLUMNS,
        shown.rows(page.jobs, page.now),
        items=page.jobs,
        empty="\n".join(("no job matches this filter", *page.hints))
        if job_filter
        else "there are no jobs: enqueue one",
        whole={"jobs": page.jobs, "next": page.next, "searched": page.searched, "hints": page.hints},
        note=shown.note(page),
        next=page.next,
    )


@jobs.command()
@job_argument
@where
@json_option
def show(job: int, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one job in full: its runs and errors, its arguments, its result, the jobs that it called."""
    with opened(dsn, schema) as app:
        detail = app.jobs.show_sync(job)
    if as_json:
        click.echo(told_as_json(shown.detail_facts(detail)))
        return
    title = (f"{detail.summary.kind} {job}", shown.state_of(detail.summary))
    print_facts(title, shown.facts(detail))
    if detail.runs:
        click.echo("")
        print_columns(shown.RUN_COLUMNS, shown.run_rows(detail))
    if detail.children:
        click.echo("")
        print_columns(shown.COLUMNS, shown.rows(detail.children, detail.now))
    for line in shown.traceback_lines(detail):
        click.echo(line)
    for line in shown.last_log_lines(detail):
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
    for part in (explanation.sentence, spoken(explanation.advice)):
        if part:
            click.echo("\n".join(in_lines(visible(part))))
