"""`holdfast workers`: which worker processes there are, whether they live, and what they run."""

from collections.abc import Iterator

import click

from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import distance, length, moment
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.table import print_table
from holdfast.cli.watching import rounds, watch_option
from holdfast.insights.workers import RunningJob, WorkerRecord
from holdfast.postgres.schema import Schema

HEADS = ("ID", "STATE", "HOST", "PID", "VERSION", "SLOTS", "BEAT", "QUEUES", "KINDS", "RUNS")
JOB_HEADS = ("JOB", "KIND", "TRY", "FOR", "")
_MARKS = {"live": "●", "silent": "◌", "lost": "✕"}


@click.group()
def workers() -> None:
    """Show which workers there are, whether they live, and what they run."""


@workers.command("list")
@watch_option
@where
@json_option
def list_(*, watch: bool, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """List workers, oldest first, with those that were lost lately."""
    with opened(dsn, schema) as app:
        for make_room in rounds(watch=watch):
            found = app.workers.list_sync()
            make_room()
            if as_json:
                click.echo(told_as_json(found))
            elif found:
                rows = [_row(worker) for worker in found]
                print_table(HEADS, rows, flexible=("HOST", "QUEUES", "RUNS"))
            else:
                click.echo("no worker is running: start one with: holdfast worker -A …")


@workers.command()
@click.argument("worker", type=click.IntRange(1), metavar="ID")
@where
@json_option
def show(worker: int, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one worker: its process, its heartbeat, what it serves and what it runs."""
    with opened(dsn, schema) as app:
        found = app.workers.show_sync(worker)
    if as_json:
        click.echo(told_as_json(found))
        return
    click.echo(f"{click.style(f'worker {found.id}', bold=True)}  {_state(found)}")
    for what, words in _facts(found):
        click.echo(f"  {what:<9}{words}")
    if found.running:
        click.echo("")
        print_table(JOB_HEADS, [_job_row(job, found) for job in found.running], flexible=("KIND",))
        if found.used > len(found.running):
            click.echo(f"… and {found.used - len(found.running):,} more")


def _row(worker: WorkerRecord) -> tuple[str, ...]:
    return (
        str(worker.id),
        _state(worker),
        worker.host,
        str(worker.pid),
        worker.version,
        f"{worker.used}/{worker.slots}",
        distance(worker.beat_at, worker.now),
        ", ".join(worker.queues),
        str(len(worker.kinds)),
        _runs(worker),
    )


def _state(worker: WorkerRecord) -> str:
    return f"{_MARKS[worker.state]} {worker.state}" + (", leads" if worker.is_leader else "")


def _runs(worker: WorkerRecord) -> str:
    """The jobs that have run for longest come first: those are the ones to ask about. A narrow terminal cuts
    the kind, not the job.
    """
    named = [f"{job.job} for {length(worker.now - job.started_at)} ({job.kind})" for job in worker.running]
    more = worker.used - len(named)
    return ", ".join([*named, f"{more:,} more"] if more > 0 else named)


def _facts(worker: WorkerRecord) -> Iterator[tuple[str, str]]:
    yield "process", f"{worker.pid} on {worker.host}, Holdfast {worker.version}"
    began = distance(worker.started_at, worker.now)
    yield "started", f"{moment(worker.started_at)} UTC, {began}"
    yield "beat", _beat(worker)
    yield "slots", f"{worker.used} of {worker.slots} are used"
    yield "queues", ", ".join(worker.queues)
    yield "kinds", ", ".join(worker.kinds)


def _beat(worker: WorkerRecord) -> str:
    beat = distance(worker.beat_at, worker.now)
    match worker.state:
        case "live":
            return f"{beat}; it counts as lost if none comes within {length(worker.expires_at - worker.now)}"
        case "silent":
            overdue = length(worker.now - worker.expires_at)
            return f"{beat}, overdue for {overdue}: the leader will give its jobs to others"
        case "lost":
            return f"{beat}; it was given up {distance(worker.lost_at, worker.now)}, and others run its jobs"


def _job_row(job: RunningJob, worker: WorkerRecord) -> tuple[str, ...]:
    return (
        str(job.job),
        job.kind,
        str(job.attempt),
        length(worker.now - job.started_at),
        "asked to stop" if job.is_cancelling else "",
    )
