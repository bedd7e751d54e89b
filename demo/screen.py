"""How the demo looks: a live view in a terminal, lines elsewhere. Red is only for what needs a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
    is_open: bool = False


class Screen:
    """Shows one picture after the other."""

    def __init__(self, console: Console, stage: Stage, live: Live | None) -> None:
        self._console = console
        self._stage = stage
        self._live = live
        self._told: set[tuple[object, ...]] = set()
        self._latest = timedelta()
        self._line_at = 0.0
        self._last: Picture | None = None

    def show(self, picture: Picture) -> None:
        self._last = picture
        if self._live is not None:
            footer = self._console.render_lines(Text(self._stage.footer))
            rows = max(self._console.height - _OTHER_LINES - len(footer), 4)
            self._live.update(_frame(picture, self._stage, rows, self._console.width), refresh=True)
            return
        self._tell_new(picture)
        if monotonic() >= self._line_at and self._stage.is_open:
            self._line_at = monotonic() + _LINE_SECONDS
            self._tell_standing(picture)

    def end(self) -> None:
        """So that the lines and the summary end with the same counts."""
        if self._live is None and self._stage.is_open and self._last is not None:
            self._tell_standing(self._last)

    def _tell_new(self, picture: Picture) -> None:
        """An event that is seen late, after others or a count were told, does not set the clock back."""
        new = [event for event in picture.events if event.key not in self._told]
        self._told.update(event.key for event in new)
        for line in told([replace(event, after=max(event.after, self._latest)) for event in new]):
            self._console.print(Text(line.plain), soft_wrap=True)
        self._latest = max([self._latest, *(event.after for event in new)])

    def _tell_standing(self, picture: Picture) -> None:
        self._latest = max(self._latest, picture.after)
        self._console.print(
            f"{clock(self._latest)}  {_orders(self._stage)}, {_jobs(picture.ended)} ended, "
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
        Text.assemble(("Holdfast", "bold"), ("  a small shop on a private Postgres", "dim")),
        clock(picture.after) if stage.is_open else "",
    )
    head.add_row(Text(_orders(stage)), Text(f"{_jobs(picture.ended)} ended, {picture.active} to go"))
    is_narrow = width < _WIDE
    middle = Table.grid(padding=(0, 2 if is_narrow else 4, 0, 0))
    middle.add_row(Text("Queues", "bold"), Text("Running", "bold"))
    middle.add_row(_queues(picture, is_narrow=is_narrow), _running(picture, is_narrow=is_narrow))
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


def _queues(picture: Picture, *, is_narrow: bool) -> Table:
    table = _table(is_narrow=is_narrow)
    table.add_column("queue", no_wrap=True, min_width=max(map(len, QUEUES)))
    for title in ("ready", "runs" if is_narrow else "running", "later", "done", "dead"):
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for name in QUEUES:
        queue = picture.queues.get(name, Queue(name))
        counts = [_count(n) for n in (queue.ready, queue.running, queue.later)]
        table.add_row(name, *counts, _count(queue.done, "green"), _count(queue.dead, "bold red"))
    return table


def _running(picture: Picture, *, is_narrow: bool) -> Table:
    table = _table(is_narrow=is_narrow)
    table.add_column("job", no_wrap=True, min_width=15)
    attempt, process = ("try", "pid") if is_narrow else ("attempt", "process")
    for title, width in (("order", 5), ("for", 6), (attempt, len(attempt)), (process, 7)):
        table.add_column(title, justify="right", no_wrap=True, min_width=width)
    count = len(picture.running)
    shown = picture.running[: _RUNNING_ROWS if count <= _RUNNING_ROWS else _RUNNING_ROWS - 1]
    for row in shown:
        cells = (row.kind, row.order_id, f"{row.age.total_seconds():.1f} s", str(row.attempt), str(row.pid))
        table.add_row(*cells, style="magenta" if row.is_silent else "")
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
        f'{flows.charged} waiting for "packed", {flows.shipped} shipped'
    )


def _count(number: int, style: str = "") -> Text:
    return Text(str(number), style) if number else Text("·", "dim")


def _table(*, is_narrow: bool) -> Table:
    """All columns fit into 80."""
    return Table(box=None, header_style="dim", padding=(0, 1 if is_narrow else 2, 0, 0), pad_edge=False)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _orders(stage: Stage) -> str:
    if not stage.is_open:
        return "waiting for the workers"
    placed, rolled_back = len(stage.books.placed), len(stage.books.rolled_back)
    taken = placed + rolled_back
    of = f" of {stage.orders}" if taken <= stage.orders else ""
    return f"{taken}{of} orders, {rolled_back} rolled back"
