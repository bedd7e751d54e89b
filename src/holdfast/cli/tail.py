"""`holdfast jobs tail`: what happens to jobs, line by line, as it happens."""

import os
import sys
import time
from collections.abc import Sequence

import click

from holdfast.app import App
from holdfast.cli import tail_output as shown
from holdfast.cli.exit_codes import Exit
from holdfast.cli.filters import read_filter
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.listing import OUTAGES
from holdfast.cli.shared_options import opened, where
from holdfast.domain.job_filter import JobFilter
from holdfast.insights.tail_records import TailEvent, TailMark, TailPage
from holdfast.postgres.schema import Schema

LOOK_SECONDS = 1.0


@click.command()
@click.argument("terms", nargs=-1, metavar="[ID or FILTER]…")
@where
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def tail(terms: Sequence[str], *, dsn: str | None, schema: Schema, as_json: bool) -> int:
    """Follow jobs: when runs start, what they log if that is kept, and how they end. One job until its end:
    `42`; those that match a filter until Ctrl-C: `kind:pay`; all without one.
    """
    job_filter = _read(terms)
    with opened(dsn, schema) as app:
        try:
            follow(app, job_filter, as_json=as_json, is_announced=True)
        except KeyboardInterrupt:
            pass  # the way to end it
        except BrokenPipeError:  # so is `| head`: Python must not write there again when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.OK


def follow(
    app: App, job_filter: JobFilter, *, as_json: bool, is_err: bool = False, is_announced: bool = False
) -> None:
    """Until all jobs that are named by their ids have ended, or for ever."""
    page = app.jobs.tail_sync(job_filter)
    if is_announced and not page.is_over:
        _announce(app, job_filter)
    has_job = len(job_filter.ids) != 1
    while True:
        for event in page.events:
            _say(event, has_job=has_job, as_json=as_json, is_err=is_err)
        if page.is_cut:
            click.echo("holdfast: more happens than can be followed: narrow the filter", err=True)
        if page.is_over:
            return
        time.sleep(LOOK_SECONDS)
        page = _next(app, job_filter, page.next)


def _announce(app: App, job_filter: JobFilter) -> None:
    """A filter that matches nothing yet is silent for long: it says what it follows, and what may be
    misspelt.
    """
    followed = f"jobs that match {job_filter}" if job_filter else "all jobs"
    click.echo(f"holdfast: following {followed}; Ctrl-C stops", err=True)
    if job_filter and not job_filter.ids:
        for hint in app.jobs.list_sync(job_filter, limit=1).hints:
            click.echo(f"  {hint}", err=True)


def _say(event: TailEvent, *, has_job: bool, as_json: bool, is_err: bool) -> None:
    if as_json:
        click.echo(told_as_json(shown.event_facts(event)), err=is_err)
        return
    for line in shown.event_lines(event, has_job=has_job):
        click.echo(line, err=is_err)


def _next(app: App, job_filter: JobFilter, mark: TailMark) -> TailPage:
    """A database that is away for a while ends nothing: what happened meanwhile is told afterwards."""
    is_told = False
    while True:
        try:
            return app.jobs.tail_sync(job_filter, after=mark)
        except OUTAGES as error:
            if not is_told:
                click.echo(f"holdfast: trying again: {error}", err=True)
            is_told = True
        time.sleep(LOOK_SECONDS)


def _read(terms: Sequence[str]) -> JobFilter:
    """Bare numbers are ids."""
    if terms and all(term.isdecimal() for term in terms):
        return read_filter([f"id:{','.join(dict.fromkeys(terms))}"])
    job_filter = read_filter(terms)
    if terms and not job_filter:
        # A variable of the shell that was not set: it does not mean every job.
        raise click.UsageError(
            "the filter is empty: say which jobs, or leave it out for all", click.get_current_context()
        )
    return job_filter
