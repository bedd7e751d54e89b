"""`--watch`: the same list again and again."""

import time
from collections.abc import Iterator

import click

from holdfast.cli.table import terminal_width

_REFRESH_SECONDS = 2.0

watch_option = click.option("--watch", is_flag=True, help="List them again every two seconds, until Ctrl-C.")


def rounds(*, watch: bool) -> Iterator[None]:
    """Once, or for ever. On a terminal each list but the first takes the place of the one before."""
    yield
    while watch:
        time.sleep(_REFRESH_SECONDS)
        if terminal_width() is not None:
            click.clear()
        yield
