"""`--watch`: the same list again and again."""

import time
from collections.abc import Callable, Iterator

import click

from holdfast.cli.terminal import terminal_width

_REFRESH_SECONDS = 2.0

watch_option = click.option("--watch", is_flag=True, help="List them again every two seconds, until Ctrl-C.")


def rounds(*, watch: bool) -> Iterator[Callable[[], None]]:
    """Once, or for ever. Each round gets a function to call when the new list is at hand: it takes the old
    one off the terminal, which stays there while the database is asked.
    """
    yield _clear if watch else _leave
    while watch:
        time.sleep(_REFRESH_SECONDS)
        yield _clear


def _clear() -> None:
    if terminal_width() is not None:
        click.clear()


def _leave() -> None:
    pass
