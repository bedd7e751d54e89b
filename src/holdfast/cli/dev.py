"""`holdfast dev`: a worker for development, which starts again when the code changes.

This process imports nothing of the project. It watches its files and keeps one worker process running
(`dev_worker.py`), which reads HOLDFAST_DSN like any other program: without it, this process sets it to a
private server in this directory.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import click

from holdfast.cli.app_loader import project_directory
from holdfast.cli.file_watcher import FileWatcher
from holdfast.cli.formats import how_many
from holdfast.cli.options import length
from holdfast.cli.private_server import PrivateServer, private_directory
from holdfast.cli.reloader import RELOAD_GRACE, Reloader, say
from holdfast.cli.worker_arguments import WorkerArguments
from holdfast.cli.worker_options import app_option, log_level_option, queues_option
from holdfast.domain.duration import compact
from holdfast.settings import VARIABLE, read_target

_PROGRAM = (sys.executable, "-m", "holdfast.cli.dev_worker")
# Shorter than in production: here one worker runs, and its jobs wait for nobody else to rescue them.
_LEASE = timedelta(seconds=10)


@click.command()
@app_option
@queues_option
@click.option(
    "--watch",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also start again when a Python file below this directory changes; may be repeated.",
)
@click.option(
    "--grace",
    callback=length,
    default=compact(RELOAD_GRACE),
    metavar="DURATION",
    show_default=True,
    help="How long running jobs may continue when their code has changed, or after Ctrl-C.",
)
@log_level_option
@click.option(
    "--dsn",
    metavar="DSN",
    help=f"Which database, for an App() that names none: sets {VARIABLE}.  "
    f"[default: {VARIABLE}, else a private Postgres in ./.holdfast]",
)
@click.pass_context
def dev(
    ctx: click.Context,
    *,
    reference: str,
    queues: Mapping[str, int | None] | None,
    watch: Sequence[Path],
    grace: timedelta,
    log_level: str,
    dsn: str | None,
) -> int:
    """Run jobs while you develop: a worker that starts again when you save.

    Creates the tables, and a private Postgres if no database is named. Stops with Ctrl-C.
    """
    directories = [project_directory(reference), *watch]
    if dsn is not None:
        os.environ[VARIABLE] = dsn
    directory = private_directory()
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = f"embedded:{directory}"
    read_target(None)  # a wrong one is told now
    if ctx.color is False:
        os.environ["NO_COLOR"] = "1"
    os.environ["PYTHONUNBUFFERED"] = "1"  # what handlers print comes in its place among the log lines
    arguments = WorkerArguments(queues=queues, grace=grace, lease=_LEASE, once=False)
    command = [*_PROGRAM, "-A", reference, *arguments.as_options(), "--log-level", log_level]
    if dsn is not None:
        command.append("--dsn-is-given")

    async def run() -> int:
        watcher = FileWatcher(directories, skipped=[directory])
        await watcher.look()
        places = ", ".join(map(str, watcher.directories))
        files = how_many(watcher.count, "Python file")
        say(f"watching {files} in {places}; Ctrl-C stops")
        reloader = Reloader(
            lambda was_up: [*command, *(["--again"] if was_up else [])],
            watcher,
            grace=grace,
            hold=PrivateServer(directory),
        )
        return await reloader.run()

    return asyncio.run(run())
