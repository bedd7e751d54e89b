"""How the demo looks: a live view in a terminal, lines elsewhere. Red is only for what needs a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.orders import Books
from demo.picture import Deliveries, Picture, Queue, Scheduled
from demo.shop import QUEUES
from demo.telling import clock, told

FRAMES_A_SECOND = 4
_RUNNING_ROWS = 8
_OTHER_LINES = 19
_WIDE = 97
_LINE_SECONDS = 2.0
_LONG_SECONDS = 3600

_STYLES = {
    "caught up": "magenta",
    "dead": "bold red",
    "lost": "bold magenta",
    "rescued": "magenta",
    "resumed": "magenta",
    "retried": "bold",
    "snoozed": "dim",
}


@dataclass(slots=True)
class Stage:
    """What every frame shows beside the picture."""

    books: Books
    orders: int
    footer: str
    opened_at: float | None = None

    @property
    def clock(self) -> str:
        return clock(timedelta(seconds=monotonic() - self.opened_at)) if self.opened_at else ""


class Screen:
    """Shows one picture after the other."""

    def __init__(self, console: Console, stage: Stage, live: Live | None) -> None:
        self._console = console
        self._stage = stage
        self._live = live
        self._told = 0
        self._line_at = 0.0

    def show(self, picture: Picture) -> None:
        if self._live is not None:
            footer = self._console.render_lines(Text(self._stage.footer))
            rows = max(self._console.height - _OTHER_LINES - len(footer), 4)
            self._live.update(_frame(picture, self._stage, rows, self._console.width), refresh=True)
            return
        lines = told(picture.events)
        for line in lines[self._told :]:
            self._console.print(Text(line.plain), soft_wrap=True)
        self._told = len(lines)
        if monotonic() >= self._line_at and self._stage.opened_at is not None:
            self._line_at = monotonic() + _LINE_SECONDS
            self._console.print(
                f"{self._stage.clock}  {_orders(self._stage)}, {picture.ended} jobs ended, "
                f"{len(picture.running)} running, {picture.active - len(picture.running)} to come",
                highlight=False,
                soft_wrap=True,
            )


@contextmanager
def screen(console: Console, stage: Stage) -> Iterator[Screen]:
    if not console.is_terminal:
        yield Screen(console, stage, None)
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        yield Screen(console, stage, live)


def _frame(picture: Picture, stage: Stage, event_rows: int, width: int) -> RenderableType:
    head = Table.grid(expand=True)
    head.add_column()
    head.add_column(justify="right")
    head.add_row(
        Text.assemble(("Holdfast", "bold"), ("  a small shop on a private Postgres", "dim")), stage.clock
    )
    head.add_row(Text(_orders(stage)), Text(f"{picture.ended} jobs ended, {picture.active} to go"))
    middle = Table.grid(padding=(0, 4, 0, 0))
    middle.add_row(Text("Queues", "bold"), Text("Running", "bold"))
    middle.add_row(_queues(picture), _running(picture, is_narrow=width < _WIDE))
    timetable = Text.assemble(("Schedules  ", "bold"), "   ".join(map(_scheduled, picture.schedules)))
    flows = Text.assemble(("Flows      ", "bold"), _delivered(picture.deliveries))
    title = Text("What went wrong, and what became of it", "bold")
    return Group(
        head,
        Text(),
        middle,
        timetable,
        flows,
        Text(),
        title,
        _events(picture, event_rows),
        Text(stage.footer, "dim"),
    )


def _queues(picture: Picture) -> Table:
    table = _table()
    table.add_column("queue", no_wrap=True, min_width=max(map(len, QUEUES)))
    for title in ("ready", "running", "later", "done", "dead"):
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for name in QUEUES:
        queue = picture.queues.get(name, Queue(name))
        counts = [_count(n) for n in (queue.ready, queue.running, queue.later)]
        table.add_row(name, *counts, _count(queue.done, "green"), _count(queue.dead, "bold red"))
    return table


def _running(picture: Picture, *, is_narrow: bool) -> Table:
    table = _table()
    table.add_column("job", no_wrap=True, min_width=15)
    for title, width in (("order", 5), ("for", 6), ("attempt", 7), ("process", 7)):
        if not (is_narrow and title in ("attempt", "process")):
            table.add_column(title, justify="right", no_wrap=True, min_width=width)
    count = len(picture.running)
    shown = picture.running[: _RUNNING_ROWS if count <= _RUNNING_ROWS else _RUNNING_ROWS - 1]
    for row in shown:
        cells = (row.kind, row.order_id, f"{row.age.total_seconds():.1f} s", str(row.attempt), str(row.pid))
        table.add_row(*cells[: len(table.columns)], style="magenta" if row.is_silent else "")
    if count > len(shown):
        table.add_row(Text(f"and {count - len(shown)} more", "dim"))
    for _ in range(_RUNNING_ROWS - count):
        table.add_row()
    return table


def _events(picture: Picture, rows: int) -> Table:
    table = Table.grid(expand=True, padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    shown = told(picture.events)[-rows:]
    for line in shown:
        table.add_row(Text(line.at, "dim"), Text(line.word, _STYLES[line.word]), line.about, line.what)
    for _ in range(rows - len(shown)):
        table.add_row()
    return table


def _scheduled(schedule: Scheduled) -> str:
    seconds = max((schedule.next_in or timedelta()).total_seconds(), 0)
    coming = f"{seconds:.0f} s" if seconds < _LONG_SECONDS else f"{seconds / 3600:.0f} h"
    return f"{schedule.name} {schedule.fires} fired, next in {coming}"


def _delivered(flows: Deliveries) -> str:
    return (
        f"deliver {flows.begun} begun: {flows.reserved} reserved, "
        f'{flows.charged} charged and waiting for "packed", {flows.shipped} shipped'
    )


def _count(number: int, style: str = "") -> Text:
    return Text(str(number), style) if number else Text("·", "dim")


def _table() -> Table:
    return Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)


def _orders(stage: Stage) -> str:
    if stage.opened_at is None:
        return "waiting for the workers"
    placed, rolled_back = len(stage.books.placed), len(stage.books.rolled_back)
    taken = placed + rolled_back
    of = f" of {stage.orders}" if taken <= stage.orders else ""
    return f"{taken}{of} orders, {rolled_back} rolled back"
