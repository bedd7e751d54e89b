"""The `holdfast` command: reads options, calls the layers below, and turns their errors into exit codes."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.postgres.migrations.migration import Migration

__all__ = ["main"]

_INTERRUPTED = 130  # as in exit_codes.py, which is not imported yet


def main(args: Sequence[str] | None = None, *, migrations: "Sequence[Migration] | None" = None) -> int:
    """Run one command and return its exit code; `migrations` stands in for those of this release."""
    try:
        # Imported here: it takes its time, in which Ctrl-C is to end in a word and not in a traceback.
        from holdfast.cli import command_group
    except KeyboardInterrupt:
        sys.stderr.write("holdfast: interrupted\n")
        return _INTERRUPTED
    return command_group.main(args, migrations=migrations)
