"""The group of all commands, and the one place where an error becomes a sentence and an exit code."""

from collections.abc import Sequence

import click

from holdfast.cli.exits import Exit
from holdfast.cli.migrate import migrate
from holdfast.cli.schedules import schedules
from holdfast.cli.version import version
from holdfast.cli.worker import worker
from holdfast.errors import HoldfastError
from holdfast.postgres.migrations.migration import Migration
from holdfast.storage.migrations import packaged


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def commands() -> None:
    """Durable jobs for Python on the Postgres you already have."""


commands.add_command(migrate)
commands.add_command(schedules)
commands.add_command(version)
commands.add_command(worker)


def main(args: Sequence[str] | None = None, *, migrations: Sequence[Migration] | None = None) -> int:
    """Run one command and return its exit code; `migrations` stands in for those of this release."""
    try:
        obj = tuple(packaged() if migrations is None else migrations)
        ended = commands.main(args, prog_name="holdfast", standalone_mode=False, obj=obj)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        # Abort is click's name for Ctrl-C. Whatever was under way has been rolled back on the way up to here.
        _say("interrupted")
        return Exit.INTERRUPTED
    except HoldfastError as error:
        _say(" ".join(str(error).split()))
        return Exit.NOT_FOUND if isinstance(error, LookupError) else Exit.FAILED
    return ended if isinstance(ended, int) else Exit.OK


def _say(sentence: str) -> None:
    click.echo(f"holdfast: {sentence}", err=True)
