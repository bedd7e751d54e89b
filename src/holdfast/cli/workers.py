"""`holdfast workers`: which worker processes there are, whether they live, what they run, and what operators
ask of them.
"""

from collections.abc import Iterator

import click

from holdfast.app import App
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import distance, length, moment
from holdfast.cli.listing import Listed, listing
from holdfast.cli.options import WholeNumber
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.cli.state_look import Cell, marked
from holdfast.cli.table import Columns, print_facts, print_table
from holdfast.cli.worker_requests import quiet, resume, slots, stop
from holdfast.insights.workers import RunningJob, WorkerRecord, WorkerRequest
from holdfast.postgres.schema import Schema

COLUMNS = Columns(
    ("ID", "STATE", "HOST", "PID", "VERSION", "SLOTS", "BEAT", "QUEUES", "KINDS", "RUNS"),
    flexible=("RUNS", "QUEUES", "HOST"),
    spare=("VERSION", "KINDS", "PID"),
)
JOB_HEADS = ("JOB", "KIND", "TRY", "FOR", "")
_WANTED = {"quiet": "be quiet", "stop": "stop", "hurry": "stop now"}


@click.group()
def workers() -> None:
    """Show which workers there are, whether they live, and what they run; make them quiet, stop them, change
    their slots.
    """


for _command in (quiet, resume, stop, slots):
    workers.add_command(_command)


@workers.command("list")
@listing(limit=None)
def list_(app: App) -> Listed:
    """List workers, oldest first, with those that were lost lately."""
    found = app.workers.list_sync()
    return Listed(
        COLUMNS,
        [_row(worker) for worker in found],
        items=found,
        empty="no worker is running: start one with: holdfast worker -A …",
    )


@workers.command()
@click.argument("worker", type=WholeNumber(1), metavar="ID")
@where
@json_option
def show(worker: int, *, dsn: str | None, schema: Schema, as_json: bool) -> None:
    """Show one worker: its process, its heartbeat, what it serves and what it runs."""
    with opened(dsn, schema) as app:
        found = app.workers.show_sync(worker)
    if as_json:
        click.echo(told_as_json(found))
        return
    print_facts((f"worker {found.id}", state_of(found)), _facts(found))
    if found.running:
        click.echo("")
        print_table(JOB_HEADS, [_job_row(job, found) for job in found.running], flexible=("KIND",))
        if found.used > len(found.running):
            click.echo(f"… and {found.used - len(found.running):,} more")


def _row(worker: WorkerRecord) -> tuple[str, ...]:
    return (
        str(worker.id),
        state_of(worker),
        worker.host,
        str(worker.pid),
        worker.version,
        f"{worker.used}/{worker.slots}",
        distance(worker.beat_at, worker.now),
        ", ".join(worker.queues),
        str(len(worker.kinds)),
        _runs(worker),
    )


def state_of(worker: WorkerRecord) -> Cell:
    more = ""
    if worker.activity not in (None, "working"):
        more = f", {worker.activity}"
    elif worker.request is not None and worker.state != "lost":
        more = f", asked to {_WANTED[worker.request.activity]}"
    return marked(worker.state, f"{more}, leads" if worker.is_leader else more)


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
    if worker.request is not None:
        yield "asked", _request(worker.request, worker)
    yield "slots", f"{worker.used} of {worker.slots} are used{_by_queue(worker)}"
    yield "queues", ", ".join(worker.queues)
    yield "kinds", ", ".join(worker.kinds)


def _request(request: WorkerRequest, worker: WorkerRecord) -> str:
    by = "" if request.by is None else f" by {request.by}"
    why = "" if request.reason is None else f": {request.reason}"
    grace = "" if request.grace is None else f" within {length(request.grace) or '0s'}"
    return f"to {_WANTED[request.activity]}{grace}, {distance(request.asked_at, worker.now)}{by}{why}"


def _by_queue(worker: WorkerRecord) -> str:
    """Of several queues, and of one whose number is to change."""
    pending = {queue: n for queue, n in worker.asked_slots.items() if worker.queue_slots.get(queue) != n}
    if len(worker.queue_slots) < 2 and not pending:  # noqa: PLR2004  # one queue has them all
        return ""
    shown = [
        f"{queue} {n}" + (f" (asked: {pending[queue]})" if queue in pending else "")
        for queue, n in worker.queue_slots.items()
    ]
    return f": {', '.join(shown)}"


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
