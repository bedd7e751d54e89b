"""What operators ask of running workers: be quiet, go on, stop, run more or fewer jobs of a queue at once."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import click

from holdfast.app import App
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit, refuse
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import length as as_length
from holdfast.cli.options import WholeNumber
from holdfast.cli.shared_options import opened
from holdfast.cli.wording import spoken
from holdfast.domain.duration import duration
from holdfast.errors import InvalidInput, WorkerNotFound, WorkerRefused
from holdfast.insights.workers import WorkerRecord

ids_argument = click.argument("workers", type=WholeNumber(1), nargs=-1, required=True, metavar="ID…")

Facts = object


def _grace(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """Like a length elsewhere, but it may be zero."""
    if value is None:
        return None
    try:
        return timedelta() if value == "0" else duration(value, name="the value")
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _numbers(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> Mapping[str, int]:
    """`mail=8 pdf=2` as a mapping."""
    asked: dict[str, int] = {}
    for part in (part for text in value for part in text.split(",")):
        queue, equals, number = (piece.strip() for piece in part.partition("="))
        if not equals or not queue or not (number.isascii() and number.isdigit()):
            raise click.BadParameter(f"{part!r}: write how many of which queue, such as mail=8", ctx, param)
        if queue in asked:
            raise click.BadParameter(f"queue {queue!r} is named twice", ctx, param)
        asked[queue] = int(number)
    return asked


@click.command()
@ids_argument
@changing(asks=False)
def quiet(workers: Sequence[int], *, change: Change) -> int:
    """Let workers claim no more jobs, until they are resumed. Jobs that run go on."""

    def asking(app: App, worker: int) -> tuple[Facts, str]:
        found = app.workers.quiet_sync(worker, by=change.by, reason=change.reason)
        return found, (
            f"worker {worker} is asked to be quiet{_running(found)}; "
            f"let it go on with: holdfast workers resume {worker}"
        )

    return _each(change, workers, asking)


@click.command()
@ids_argument
@changing(asks=False)
def resume(workers: Sequence[int], *, change: Change) -> int:
    """Let quiet workers claim jobs again."""

    def asking(app: App, worker: int) -> tuple[Facts, str]:
        was_quiet = app.workers.resume_sync(worker, by=change.by, reason=change.reason)
        sentence = f"worker {worker} is asked to go on" if was_quiet else f"worker {worker} was not quiet"
        return {"worker": worker, "was_quiet": was_quiet}, sentence

    return _each(change, workers, asking)


@click.command()
@ids_argument
@click.option(
    "--grace",
    callback=_grace,
    metavar="DURATION",
    help="How long running jobs may go on.  [default: the worker's own --grace]",
)
@click.option("--now", is_flag=True, help="Give running jobs back at once, as a second signal does.")
@changing()
def stop(workers: Sequence[int], *, grace: timedelta | None, now: bool, change: Change) -> int:
    """Let workers end, as SIGTERM does: running jobs may end, the rest is given back. A supervisor of several
    processes (holdfast worker --processes) starts no other in their place.
    """
    if now and grace is not None:
        raise click.UsageError("--now waits for no job: give it or --grace", click.get_current_context())
    change.say_where()
    named = ", ".join(map(str, workers))
    at_once = " at once, and give their running jobs to others" if now else ""
    refused = change.refused(f"stop {'worker' if len(workers) == 1 else 'workers'} {named}{at_once}")
    if refused is not None:
        return refused

    def asking(app: App, worker: int) -> tuple[Facts, str]:
        found = app.workers.stop_sync(worker, grace=grace, now=now, by=change.by, reason=change.reason)
        waiting = "" if grace is None else f" within {as_length(grace) or '0s'}"
        at_once = " at once" if now else waiting
        return found, f"worker {worker} is asked to stop{at_once}{_running(found)}"

    return _each(change, workers, asking, is_place_said=True)


@click.command()
@click.argument("worker", type=WholeNumber(1), metavar="ID")
@click.argument("numbers", nargs=-1, required=True, callback=_numbers, metavar="QUEUE=N…")
@changing(asks=False)
def slots(worker: int, numbers: Mapping[str, int], *, change: Change) -> int:
    """Let a worker run more or fewer jobs of a queue at once: mail=8. Jobs that run go on."""

    def asking(app: App, worker: int) -> tuple[Facts, str]:
        found = app.workers.show_sync(worker)
        changes = [
            f"{queue} {found.queue_slots.get(queue, '?')} → {number}" for queue, number in numbers.items()
        ]
        for queue, number in numbers.items():
            found = app.workers.slots_sync(worker, queue, number, by=change.by, reason=change.reason)
        return found, f"worker {worker} is asked to change its slots: {', '.join(changes)}"

    return _each(change, [worker], asking)


def _each(
    change: Change,
    workers: Sequence[int],
    asking: Callable[[App, int], tuple[Facts, str]],
    *,
    is_place_said: bool = False,
) -> int:
    """One after the other: what one of them refuses does not keep the others from being asked."""
    if not is_place_said:
        change.say_where()
    code, facts = Exit.OK, []
    with opened(change.dsn, change.schema) as app:
        for worker in dict.fromkeys(workers):
            try:
                fact, sentence = asking(app, worker)
            except WorkerNotFound as error:
                code = max(code, Exit.NOT_FOUND)
                click.echo(f"holdfast: {spoken(str(error))}", err=True)
            except WorkerRefused as error:
                code = refuse(str(error))
            else:
                facts.append(fact)
                if not change.as_json:
                    click.echo(sentence)
    if change.as_json:
        click.echo(told_as_json(facts))
    return code


def _running(worker: WorkerRecord) -> str:
    if worker.used == 0:
        return ", and runs nothing"
    return f"; {worker.used:,} {'job runs' if worker.used == 1 else 'jobs run'} there"
