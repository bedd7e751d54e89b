"""Progress of long work, on stderr, for every command that has some:

    with progress("retry", total=1_200, unit="jobs") as shown:
        …
        shown.at(200)

On a terminal it is a bar with count, rate and time left, which goes when the work ends. Elsewhere it is a
line every few seconds, and none for work that takes less.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import click

from holdfast.cli.formats import length
from holdfast.cli.terminal import console, is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_LINE_EVERY_SECONDS = 5.0


class Progress(Protocol):
    def at(self, done: int, *, total: int | None = None, what: str | None = None) -> None:
        """So much is done. `total` and `what` take the place of those given at first."""

    def say(self, line: str) -> None:
        """Print a line to stdout, above the bar."""


@contextmanager
def progress(what: str, *, total: int | None = None, unit: str = "") -> Iterator[Progress]:
    """`total` is None if it is not known: then there is no bar, and no time left."""
    if not is_terminal(sys.stderr):
        yield _Lines(what, total, unit, time.monotonic)
        return
    shown = _Bar(what, total, unit, time.monotonic)
    with shown.bar:
        yield shown


def progress_words(done: int, total: int | None, unit: str, took: float) -> str:
    """`1,200 of 5,000 jobs, 400/s, 9s left`."""
    if total is not None:
        total = max(done, total)  # it was counted before, and more may have come
    words = [f"{done:,}" + ("" if total is None else f" of {total:,}") + (f" {unit}" if unit else "")]
    rate = done / took if took > 0 else 0.0
    if rate > 0:
        words.append(f"{rate:,.0f}/s" if rate >= 1 else f"{rate * 60:,.1f}/min")
        if total is not None and total > done:
            words.append(f"{length(timedelta(seconds=(total - done) / rate))} left")
    return ", ".join(words)


class _Lines:
    def __init__(self, what: str, total: int | None, unit: str, clock: Callable[[], float]) -> None:
        self._what, self._total, self._unit, self._clock = what, total, unit, clock
        self._began = self._told = clock()

    def at(self, done: int, *, total: int | None = None, what: str | None = None) -> None:
        self._total = self._total if total is None else total
        now = self._clock()
        if now - self._told >= _LINE_EVERY_SECONDS:
            self._told = now
            words = progress_words(done, self._total, self._unit, now - self._began)
            click.echo(f"holdfast: {what or self._what}: {words}", err=True)

    def say(self, line: str) -> None:
        click.echo(line)


class _Bar:
    def __init__(self, what: str, total: int | None, unit: str, clock: Callable[[], float]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._what, self._total, self._unit, self._clock = what, total, unit, clock
        self._began = clock()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[words]}", markup=False),
        )
        self.bar: Bar = Progress(
            *columns,
            console=console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        words = progress_words(0, total, unit, 0)
        self._task: TaskID = self.bar.add_task(what, total=total, words=words)

    def at(self, done: int, *, total: int | None = None, what: str | None = None) -> None:
        self._total = self._total if total is None else total
        total = None if self._total is None else max(done, self._total)
        words = progress_words(done, total, self._unit, self._clock() - self._began)
        self.bar.update(
            self._task, completed=done, total=total, description=what or self._what, words=words, refresh=True
        )

    def say(self, line: str) -> None:
        if is_terminal():
            self.bar.console.print(line, soft_wrap=True)
        else:
            click.echo(line)
