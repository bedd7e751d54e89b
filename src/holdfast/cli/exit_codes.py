"""The exit codes, for scripts that call `holdfast`."""

from enum import IntEnum

import click


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNHEALTHY = 5
    INTERRUPTED = 130


def refuse(sentence: str) -> Exit:
    """What would be done, and how to say that it is meant."""
    click.echo(f"holdfast: {sentence}", err=True)
    return Exit.REFUSED
