"""Tables for people: aligned, cut to the terminal's width; whole and without colour when they are piped."""

import shutil
import sys
from collections.abc import Collection, Sequence

import click

_GAP = "  "
_LEAST = 8


def print_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, flexible: Collection[str] = ()
) -> None:
    """`flexible` columns give way when the terminal is too narrow; those that are empty are left out."""
    shown = [n for n, _ in enumerate(heads) if not rows or any(row[n] for row in rows)]
    table = [[heads[n] for n in shown], *[[row[n] for n in shown] for row in rows]]
    widths = [max(len(cells[n]) for cells in table) for n in range(len(shown))]
    _fit(widths, [n for n, place in enumerate(shown) if heads[place] in flexible])
    for number, cells in enumerate(table):
        line = _GAP.join(_cell(cell, width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def terminal_width() -> int | None:
    """None when the output is not a terminal: then nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _fit(widths: list[int], flexible: Sequence[int]) -> None:
    limit = terminal_width()
    if limit is None:
        return
    while sum(widths) + len(_GAP) * (len(widths) - 1) > limit:
        widest = max(flexible, key=lambda n: widths[n], default=None)
        if widest is None or widths[widest] <= _LEAST:
            return
        widths[widest] -= 1


def _cell(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
