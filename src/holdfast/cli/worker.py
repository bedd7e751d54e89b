"""`holdfast worker`: runs an app's jobs, in this process or in several."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta

import click

from holdfast.cli.app_loader import load_app
from holdfast.cli.exit_codes import Exit
from holdfast.cli.log_setup import LogFormat, batched_logging, set_up_logging
from holdfast.cli.one_worker import work
from holdfast.cli.options import length
from holdfast.cli.supervised import Supervised
from holdfast.cli.supervisor import Supervisor
from holdfast.cli.worker_arguments import WorkerArguments
from holdfast.domain.duration import compact
from holdfast.errors import InvalidInput
from holdfast.settings import VARIABLE
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.cores import cores
from holdfast.worker.queue_choice import SLOTS

_STANDARD = WorkerOptions()
_LEVELS = ("debug", "info", "warning", "error")
_SHORTEST_LEASE = timedelta(seconds=1)


def _queues(ctx: click.Context, param: click.Parameter, value: str | None) -> Mapping[str, int | None] | None:
    """`mail=20,default` as a mapping; None for a queue without a number, where one may be left out."""
    if value is None:
        return None
    queues: dict[str, int | None] = {}
    for part in value.split(","):
        name, equals, slots = (piece.strip() for piece in part.partition("="))
        is_left_out = not equals and param.name == "queues"
        if not is_left_out and not (slots.isascii() and slots.isdigit()):
            raise click.BadParameter(
                f"{part.strip()!r}: give a whole number of jobs at once, such as mail=20", ctx, param
            )
        if name in queues:
            raise click.BadParameter(f"queue {name!r} is named twice", ctx, param)
        queues[name] = int(slots) if equals else None
    try:
        WorkerOptions(queues={name: 1 if number is None else number for name, number in queues.items()})
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return queues


def _lease(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    read = length(ctx, param, value)
    if read < _SHORTEST_LEASE:
        raise click.BadParameter(f"{value!r} is too short: give at least 1s", ctx, param)
    return read


@click.command()
@click.option(
    "-A", "--app", "reference", required=True, metavar="MODULE:ATTRIBUTE", help="Which App: shop.jobs:app."
)
@click.option(
    "-q",
    "--queues",
    callback=_queues,
    metavar="NAME[=N],…",
    help=f"Which queues, and how many jobs of each run at once in a process (--slots, else {SLOTS}): "
    "mail=20,default.  [default: the queues of the app's jobs]",
)
@click.option(
    "--slots",
    callback=_queues,
    metavar="NAME=N,…",
    help="How many jobs of a queue run at once in a process, without choosing queues: pdf=2.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="How many worker processes.",
)
@click.option(
    "--children",
    type=click.IntRange(1, 1000),
    metavar="N",
    help='How many child processes run at once for jobs with isolate="process", in each process.  '
    "[default: the cores of this machine, divided among the processes]",
)
@click.option(
    "--grace",
    callback=length,
    default=compact(_STANDARD.grace),
    metavar="DURATION",
    show_default=True,
    help="How long running jobs may continue after the first signal.",
)
@click.option(
    "--lease",
    callback=_lease,
    default=compact(_STANDARD.beats.lease),
    metavar="DURATION",
    show_default=True,
    help="After how long without a heartbeat other workers take over this worker's jobs.",
)
@click.option("--once", is_flag=True, help="Stop as soon as there is nothing to do.")
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="The format of log lines.",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="The lowest level that is logged.",
)
@click.option("--dsn", metavar="DSN", help=f"Which database, for an App() that names none: sets {VARIABLE}.")
@click.pass_context
def worker(
    ctx: click.Context,
    *,
    reference: str,
    queues: Mapping[str, int | None] | None,
    slots: Mapping[str, int] | None,
    processes: int,
    children: int | None,
    grace: timedelta,
    lease: timedelta,
    once: bool,
    log_format: LogFormat,
    log_level: str,
    dsn: str | None,
) -> int:
    """Run jobs until SIGTERM or Ctrl-C.

    The first signal lets running jobs end, the second gives them back at once.
    """
    supervised = Supervised.from_environment()
    if dsn is not None:
        os.environ[VARIABLE] = dsn
    is_logging_asked_for = _is_given(ctx, "log_format") or _is_given(ctx, "log_level")
    if children is None:
        children = max(1, cores() // processes)
    arguments = WorkerArguments(
        queues=queues, slots=slots, grace=grace, lease=lease, once=once, children=children
    )
    if processes > 1:
        set_up_logging(log_format, log_level)
        logged = ["--log-format", log_format, "--log-level", log_level] if is_logging_asked_for else []
        return _supervise([*_command(reference, arguments), *logged], processes)
    if is_logging_asked_for:
        set_up_logging(log_format, log_level)  # for what is said while the app is imported
    app = load_app(reference)
    if dsn is not None and app._connections.given is not None:  # noqa: SLF001  # its face
        raise click.UsageError(f"--dsn is for an App() that names no database, but {reference} names its own")
    if is_logging_asked_for or not logging.root.handlers:
        set_up_logging(log_format, log_level)
    try:
        with batched_logging():
            work(app, arguments, supervised)
    except BaseExceptionGroup as group:
        raise _only(group) from None
    return Exit.OK


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _supervise(command: Sequence[str], processes: int) -> int:
    async def supervise() -> int:
        return await Supervisor(command, processes).run()

    return asyncio.run(supervise())


def _command(reference: str, arguments: WorkerArguments) -> list[str]:
    """For one process. Without the DSN, which may hold a password and goes by the environment: every user
    of the machine can read a command.
    """
    command = [sys.executable, "-m", "holdfast.cli", "worker", "-A", reference]
    if arguments.queues:
        asked = arguments.queues.items()
        command += ["-q", ",".join(name if slots is None else f"{name}={slots}" for name, slots in asked)]
    if arguments.slots:
        command += ["--slots", ",".join(f"{name}={slots}" for name, slots in arguments.slots.items())]
    command += ["--grace", compact(arguments.grace), "--lease", compact(arguments.lease)]
    if arguments.children is not None:
        command += ["--children", str(arguments.children)]
    return [*command, "--once"] if arguments.once else command


def _only(error: BaseException) -> BaseException:
    """The one error that services, nested in groups, have ended with."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
