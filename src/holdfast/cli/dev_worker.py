"""The worker process of `holdfast dev`, which starts it with `python -m holdfast.cli.dev_worker`."""

import logging
import os
import signal
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import click

from holdfast.app import App
from holdfast.cli.app_loader import load_app
from holdfast.cli.dev_output import print_found, print_reloaded, print_target
from holdfast.cli.log_setup import batched_logging, set_up_logging
from holdfast.cli.one_worker import work
from holdfast.cli.options import length
from holdfast.cli.private_server import private_directory
from holdfast.cli.supervised import PRIVATE, Supervised, telling_of_broken_code
from holdfast.cli.worker_arguments import WorkerArguments
from holdfast.cli.worker_options import app_option, log_level_option, queues_option, read_lease
from holdfast.settings import Embedded, Target, read_target


@click.command()
@app_option
@queues_option
@click.option("--grace", callback=length, required=True)
@click.option("--lease", callback=read_lease, required=True)
@log_level_option
@click.option("--again", is_flag=True, help="An earlier process has said what there is.")
@click.option("--dsn-is-given", is_flag=True)
def dev_worker(
    *,
    reference: str,
    queues: Mapping[str, int | None] | None,
    grace: timedelta,
    lease: timedelta,
    log_level: str,
    again: bool,
    dsn_is_given: bool,
) -> int:
    """Migrate, say what there is, and run jobs until told to stop."""
    supervised = Supervised.from_environment()
    # A terminal that is closed signals both processes. This one drains, as after Ctrl-C.
    signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with telling_of_broken_code(supervised):
        app = load_app(reference)
        given = app._connections.given  # noqa: SLF001  # its face
        if dsn_is_given and given is not None:
            raise click.UsageError(
                f"--dsn is for an App() that names no database, but {reference} names its own"
            )
        app.check()
        target = read_target(given)
        if not again:
            print_target(target, app.schema)
        _reach(app, target, supervised)
        if again:
            print_reloaded(app)
        else:
            print_found(app)
        if not logging.root.handlers:
            set_up_logging("dev", log_level)
        arguments = WorkerArguments(queues=queues, grace=grace, lease=lease, once=False)
        with batched_logging():
            return work(app, arguments, supervised)


def _reach(app: App, target: Target, supervised: Supervised | None) -> None:
    app.migrate_sync()
    is_shared = isinstance(target, Embedded) and Path(target.directory).resolve() == private_directory()
    if is_shared and supervised is not None:
        supervised.say(PRIVATE)


if __name__ == "__main__":
    from holdfast.cli.command_group import run

    sys.exit(run(dev_worker, None))
