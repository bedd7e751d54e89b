"""All commands, and the one place where an error becomes a message and an exit code."""

import os
from collections.abc import Sequence

import click

from holdfast.cli.audit import audit
from holdfast.cli.completion import completion
from holdfast.cli.dev import dev
from holdfast.cli.doctor import doctor
from holdfast.cli.enqueue import enqueue
from holdfast.cli.exit_codes import Exit
from holdfast.cli.failures import failures
from holdfast.cli.flows import flows
from holdfast.cli.fsck import fsck
from holdfast.cli.groups import groups
from holdfast.cli.health import health
from holdfast.cli.init import init
from holdfast.cli.jobs import jobs
from holdfast.cli.kinds import kinds
from holdfast.cli.limits import limits
from holdfast.cli.migrate import migrate
from holdfast.cli.operations import operations
from holdfast.cli.prune import prune
from holdfast.cli.queues import queues
from holdfast.cli.schedules import schedules
from holdfast.cli.stats import stats
from holdfast.cli.top import top
from holdfast.cli.version import version
from holdfast.cli.wording import spoken
from holdfast.cli.worker import worker
from holdfast.cli.workers import workers
from holdfast.errors import (
    HoldfastError,
    InvalidConnectionString,
    InvalidFilter,
    MissingPrivilege,
    WorkerRefused,
)
from holdfast.postgres.migrations.migration import Migration
from holdfast.storage.migrations import packaged


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--no-color", is_flag=True, help="Print no colour and no bold type, as NO_COLOR=1 does.")
@click.pass_context
def commands(ctx: click.Context, *, no_color: bool) -> None:
    """Durable jobs for Python on the Postgres you already have."""
    if no_color or os.environ.get("NO_COLOR"):
        ctx.color = False


commands.add_command(audit)
commands.add_command(completion)
commands.add_command(dev)
commands.add_command(doctor)
commands.add_command(enqueue)
commands.add_command(failures)
commands.add_command(flows)
commands.add_command(fsck)
commands.add_command(groups)
commands.add_command(health)
commands.add_command(init)
commands.add_command(jobs)
commands.add_command(kinds)
commands.add_command(migrate)
commands.add_command(operations)
commands.add_command(prune)
commands.add_command(limits)
commands.add_command(queues)
commands.add_command(schedules)
commands.add_command(stats)
commands.add_command(top)
commands.add_command(version)
commands.add_command(worker)
commands.add_command(workers)


def main(args: Sequence[str] | None = None, *, migrations: Sequence[Migration] | None = None) -> int:
    """Run one command and return its exit code; `migrations` stands in for those of this release."""
    return run(commands, args, tuple(packaged() if migrations is None else migrations))


def run(command: click.Command, args: Sequence[str] | None, obj: object = None) -> int:
    """Any command, and what becomes of its errors."""
    try:
        ended = command.main(args, prog_name="holdfast", standalone_mode=False, obj=obj)
    except click.UsageError as error:
        _say_usage(error)
        return Exit.USAGE
    except click.ClickException as error:
        _say(_one_line(error.format_message()))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        # Abort is click's name for Ctrl-C. What was under way has been rolled back on the way up to here.
        _say("interrupted")
        return Exit.INTERRUPTED
    except InvalidFilter as error:
        _say(str(error))  # in lines: the second marks a place in the first
        return Exit.USAGE
    except HoldfastError as error:
        _say(spoken(_one_line(str(error))))
        return _exit_code(error)
    return ended if isinstance(ended, int) else Exit.OK


def _exit_code(error: HoldfastError) -> Exit:
    if isinstance(error, InvalidConnectionString):
        return Exit.USAGE  # the database was named wrongly, in whichever command
    if isinstance(error, (MissingPrivilege, WorkerRefused)):
        return Exit.REFUSED
    return Exit.NOT_FOUND if isinstance(error, LookupError) else Exit.FAILED


def _say_usage(error: click.UsageError) -> None:
    """What is wrong, and which help to read; that help itself, if nothing was asked for."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    sentence = spoken(_one_line(error.format_message()).rstrip("."))
    path = error.ctx.command_path if error.ctx else "holdfast"
    _say(f'{sentence} (see "{path} --help")')


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _say(sentence: str) -> None:
    click.echo(f"holdfast: {sentence}", err=True)
