"""`holdfast worker`: runs an app's jobs, in this process or in several."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta

import click

from holdfast.cli.app_loader import load_app, project_directory
from holdfast.cli.file_watcher import FileWatcher
from holdfast.cli.log_setup import LogFormat, batched_logging, set_up_logging
from holdfast.cli.one_worker import work
from holdfast.cli.options import WholeNumber, length
from holdfast.cli.reloader import RELOAD_GRACE, Reloader
from holdfast.cli.service_notifier import ServiceNotifier
from holdfast.cli.supervised import Supervised, telling_of_broken_code
from holdfast.cli.supervisor import Supervisor
from holdfast.cli.worker_arguments import WorkerArguments
from holdfast.cli.worker_metrics import MetricsAddress, told_at
from holdfast.cli.worker_options import (
    app_option,
    log_level_option,
    queues_option,
    read_lease,
    read_queues,
)
from holdfast.domain.duration import compact
from holdfast.metrics.fleet import Fleet
from holdfast.settings import VARIABLE
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.cores import cores

_STANDARD = WorkerOptions()
_PROGRAM = (sys.executable, "-m", "holdfast.cli", "worker")


@click.command()
@app_option
@queues_option
@click.option(
    "--slots",
    callback=read_queues,
    metavar="NAME=N,…",
    help="How many jobs of a queue run at once in a process, without choosing queues: pdf=2.",
)
@click.option(
    "--processes",
    type=WholeNumber(1, 1000),
    default=1,
    show_default=True,
    help="How many worker processes.",
)
@click.option(
    "--children",
    type=WholeNumber(1, 1000),
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
    callback=read_lease,
    default=compact(_STANDARD.beats.lease),
    metavar="DURATION",
    show_default=True,
    help="After how long without a heartbeat other workers take over this worker's jobs.",
)
@click.option(
    "--metrics-port",
    type=WholeNumber(0, 65535),
    metavar="PORT",
    help="Serve /metrics for Prometheus, and the probes /healthz and /readyz, for all processes.",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    metavar="ADDRESS",
    show_default=True,
    help="Where to serve them: 0.0.0.0 for every address of this machine.",
)
@click.option("--once", is_flag=True, help="Stop as soon as there is nothing to do.")
@click.option("--reload", is_flag=True, help="Start again when a Python file of the project changes.")
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="The format of log lines.",
)
@log_level_option
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
    metrics_port: int | None,
    metrics_host: str,
    once: bool,
    reload: bool,
    log_format: LogFormat,
    log_level: str,
    dsn: str | None,
) -> int:
    """Run jobs until SIGTERM or Ctrl-C.

    The first signal lets running jobs end, the second gives them back at once.
    """
    supervised, notifier = Supervised.from_environment(), ServiceNotifier.from_environment()
    if dsn is not None:
        os.environ[VARIABLE] = dsn
    is_logging_asked_for = _is_given(ctx, "log_format") or _is_given(ctx, "log_level")
    if children is None:
        children = max(1, cores() // processes)
    if reload and not _is_given(ctx, "grace"):
        grace = RELOAD_GRACE
    arguments = WorkerArguments(
        queues=queues, slots=slots, grace=grace, lease=lease, once=once, children=children
    )
    if reload and (processes > 1 or once):
        raise click.UsageError("--reload is for one process that runs on: leave --processes and --once out")
    metrics_at = _metrics_at(ctx, metrics_host, metrics_port)
    logged = ["--log-format", log_format, "--log-level", log_level] if is_logging_asked_for else []
    command = [*_PROGRAM, "-A", reference, *arguments.as_options(), *logged]
    if processes > 1:
        set_up_logging(log_format, log_level)
        return _supervise(command, processes, metrics_at, lease, notifier)
    if reload:
        return _reload([*command, *(metrics_at.as_options() if metrics_at else ())], reference, grace)
    if is_logging_asked_for:
        set_up_logging(log_format, log_level)  # for what is said while the app is imported
    with telling_of_broken_code(supervised):
        app = load_app(reference)
        if dsn is not None and app._connections.given is not None:  # noqa: SLF001  # its face
            raise click.UsageError(
                f"--dsn is for an App() that names no database, but {reference} names its own"
            )
        if is_logging_asked_for or not logging.root.handlers:
            set_up_logging(log_format, log_level)
        with batched_logging():
            return work(app, arguments, supervised, metrics_at, notifier)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _metrics_at(ctx: click.Context, host: str, port: int | None) -> MetricsAddress | None:
    if port is None and _is_given(ctx, "metrics_host"):
        raise click.UsageError("--metrics-host says where to serve metrics: give --metrics-port too")
    return None if port is None else MetricsAddress(host, port)


def _supervise(
    command: Sequence[str],
    processes: int,
    metrics_at: MetricsAddress | None,
    lease: timedelta,
    notifier: ServiceNotifier,
) -> int:
    fleet = Fleet(lease)
    is_asked = metrics_at is not None or notifier.is_watched

    async def supervise() -> int:
        return await Supervisor(command, processes, fleet if is_asked else None, notifier).run()

    notifier.watch(lambda: fleet.health().is_ok)
    with told_at(metrics_at, fleet) if metrics_at is not None else nullcontext():
        return asyncio.run(supervise())


def _reload(command: Sequence[str], reference: str, grace: timedelta) -> int:
    async def reload() -> int:
        watcher = FileWatcher([project_directory(reference)])
        return await Reloader(lambda _: command, watcher, grace=grace).run()

    return asyncio.run(reload())
