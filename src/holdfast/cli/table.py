"""Tables and facts for people: on a terminal in colour and within its width; whole and plain when piped."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from holdfast.cli.state_look import Cell
from holdfast.cli.terminal import console, terminal_width, visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_GAP = "  "
_COMFORT = 16
_LEAST = 8
_NARROWEST = 4
_UNCUT = 1_000_000
_NUMBER = re.compile(r"[\d,.]+\+?")
_FACT = 10


@dataclass(frozen=True, slots=True)
class Columns:
    """Heads, and what gives way on a narrow terminal: see `print_table`."""

    heads: Sequence[str]
    flexible: Sequence[str] = ()
    spare: Sequence[str] = ()


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    flexible: Collection[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Where the terminal is too narrow, `spare` columns are left out, the first of them first, and `flexible`
    ones are cut, the first of them before the others. Columns without any text are always left out.
    """
    print_columns(Columns(heads, tuple(flexible), spare), rows)


def print_columns(columns: Columns, rows: Sequence[Sequence[str]]) -> None:
    limit = terminal_width()
    if limit is None:
        shown = _filled(columns, rows)
        _print_plain([[cells[n] for n in shown] for cells in (columns.heads, *rows)])
    else:
        console().print(drawn(columns, rows, limit))


def print_facts(title: Sequence[str], facts: Iterable[tuple[str, str]]) -> None:
    """One thing in full: a line of what it is, the first word in bold, and a line for each fact."""
    told = list(facts)
    width = max([_FACT, *(len(what) + 2 for what, _ in told)])
    if terminal_width() is None:
        click.echo(_GAP.join(visible(word) for word in title))
        for what, words in told:
            click.echo(f"  {what:<{width}}{visible(words)}")
        return
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    name, *more = title
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=width - 2)
    grid.add_column(overflow="fold")
    for what, words in told:
        grid.add_row(Text(what, "dim"), _text(words))
    screen = console()
    screen.print(Text(_GAP).join([Text(visible(name), "bold"), *map(_text, more)]))
    screen.print(Padding(grid, (0, 0, 0, 2)))


def print_words(words: Sequence[str]) -> None:
    """One line, in which each word keeps its style."""
    if terminal_width() is None:
        click.echo(_GAP.join(visible(word) for word in words))
    else:
        console().print(words_of(words))


def words_of(words: Sequence[str]) -> "Text":
    from rich.text import Text

    return Text(_GAP).join(map(_text, words))


def _print_plain(table: Sequence[Sequence[str]]) -> None:
    lines = [[visible(cell) for cell in cells] for cells in table]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        click.echo(_GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def drawn(columns: Columns, rows: Sequence[Sequence[str]], limit: int) -> "Table":
    """As a terminal shows it that is `limit` wide."""
    from rich.table import Table

    widths = _fitted(columns, rows, _filled(columns, rows), limit)
    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for n, width in widths.items():
        is_number = bool(rows) and all(_NUMBER.fullmatch(row[n]) for row in rows if row[n])
        table.add_column(
            _text(columns.heads[n]),
            width=width,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if is_number else "left",
        )
    for row in rows:
        table.add_row(*(_text(row[n]) for n in widths))
    return table


def _filled(columns: Columns, rows: Sequence[Sequence[str]]) -> list[int]:
    return [n for n, _ in enumerate(columns.heads) if not rows or any(row[n] for row in rows)]


def _fitted(
    columns: Columns, rows: Sequence[Sequence[str]], shown: Sequence[int], limit: int
) -> dict[int, int]:
    """The columns that are shown, and how wide each of them is."""
    from rich.cells import cell_len

    heads = columns.heads
    widths = {n: max(cell_len(_short(cell)) for cell in (heads[n], *(row[n] for row in rows))) for n in shown}
    gives = [n for head in columns.flexible for n in shown if heads[n] == head]

    def overhang(least: int) -> int:
        taken = [min(width, least) if n in gives else width for n, width in widths.items()]
        return sum(taken) + len(_GAP) * (len(taken) - 1) - limit

    for head in columns.spare:
        if overhang(_COMFORT) > 0:
            widths = {n: width for n, width in widths.items() if heads[n] != head}
    gives = [n for n in gives if n in widths]
    for floor, narrowed in ((_COMFORT, gives[:1]), (_LEAST, gives), (_NARROWEST, list(widths))):
        while overhang(_UNCUT) > 0:
            widest = max(narrowed, key=lambda n: widths[n], default=None)
            if widest is None or widths[widest] <= floor:
                break
            widths[widest] -= 1
    return widths


def _short(text: str) -> str:
    return visible(text.on_terminal if isinstance(text, Cell) else text)


def _text(text: str) -> "Text":
    from rich.text import Text

    return Text(_short(text), text.style if isinstance(text, Cell) else "")
