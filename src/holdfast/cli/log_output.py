"""How a kept log line looks to people."""

from collections.abc import Iterator
from datetime import UTC, datetime

import click

from holdfast.cli.terminal import visible
from holdfast.insights.log_records import LogLine

_COLOURS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def log_text(line: LogLine, start: str) -> Iterator[str]:
    """Behind `start`; a message of several lines has the others below it."""
    if line.dropped:
        yield f"{start}… {line.dropped:,} lines were dropped …"
    first, *others = line.message.splitlines() or [""]
    level = click.style(f"{line.level:<7}", fg=_COLOURS.get(line.level))
    yield f"{start}{level}  {visible(line.logger)}: {visible(first)}"
    for other in others:
        yield f"{' ' * len(start)}{visible(other)}"


def clock(moment: datetime) -> str:
    """A time of the day, in UTC, to the millisecond."""
    return moment.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
