"""The screen of `holdfast top`: draws what a thread has asked the database for, and listens to keys.

The thread asks, so that keys, a new size of the window and Ctrl-C are answered while the database is slow or
away. Everything that concerns the terminal happens in the main thread.
"""

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from holdfast.cli.formats import length, moment
from holdfast.cli.keyboard import Key, keys_of, read_keys
from holdfast.cli.state_look import Cell
from holdfast.cli.table import drawn, words_of
from holdfast.cli.terminal import console, visible
from holdfast.cli.top_panels import PANELS, Snapshot, shares, summary, warnings
from holdfast.errors import HoldfastError

Ask = Callable[[], Snapshot]

_LEAST_WARNINGS = 3
_ROWS_FIRST = 3
_LEAVE_WITHIN_SECONDS = 2.0
_LOOK_EVERY_SECONDS = 1.0
_PATIENCE_SECONDS = 3.0
_HELP = "q quit   p pause   Tab panel   ← → order"


@dataclass(slots=True)
class View:
    """What the operator has chosen, and what is known. `trouble` is why the last question had no answer."""

    place: str
    interval: timedelta
    snapshot: Snapshot
    panel: int = 0
    orders: list[int] = field(default_factory=lambda: [0] * len(PANELS))
    is_paused: bool = False
    trouble: str | None = None

    def press(self, key: Key) -> None:
        match key:
            case "next panel":
                self.panel = (self.panel + 1) % len(PANELS)
            case "previous panel":
                self.panel = (self.panel - 1) % len(PANELS)
            case "next order":
                self.orders[self.panel] += 1
            case "previous order":
                self.orders[self.panel] -= 1
            case "pause":
                self.is_paused = not self.is_paused
            case "quit":
                pass


def watch(ask: Ask, *, place: str, interval: timedelta) -> None:
    """Until the operator quits. The first answer must come: a wrong address is an error like any other."""
    view = View(place, interval, ask())
    wakes = _Wakes()
    with wakes.listening(), _silence():
        asker = _Asker(ask, interval, wakes.wake)
        asker.start()
        try:
            while _shown(view, asker, wakes) == "stop":
                _stop()
        finally:
            asker.leave()


def _shown(view: View, asker: "_Asker", wakes: "_Wakes") -> Literal["quit", "stop"]:
    """On the whole screen, until the operator quits, or types Ctrl-Z and the shell needs the terminal."""
    terminal, screen = sys.stdin.fileno(), console()
    with keys_of(terminal), Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            live.update(frame(view, screen), refresh=True)
            ready, _, _ = select.select([terminal, wakes.woken], [], [], _LOOK_EVERY_SECONDS)
            if wakes.woken in ready:
                os.read(wakes.woken, 4096)
            keys = read_keys(terminal) if terminal in ready else []
            for key in keys:
                view.press(key)
            if "quit" in keys:
                return "quit"
            if wakes.takes_stop():
                return "stop"
            asker.is_paused = view.is_paused
            view.snapshot, view.trouble = asker.latest(view.snapshot)


def _stop() -> None:
    """As Ctrl-Z stops any program; returns when the shell lets it go on. The kernel stops none that no shell
    could let go on: then it returns at once.
    """
    before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, before)


def frame(view: View, screen: Console) -> Group:
    """As many lines as the screen has, or fewer. On a low one only the chosen panel is shown. Warnings take
    the room that is left when each panel has a few rows.
    """
    width, height = screen.size
    lines = [_title(view), Text(view.trouble or "", "red"), *_wrapped(summary(view.snapshot), width)]
    # Each panel has an empty line, its name, its heads and a row; below them is the help.
    told = warnings(view.snapshot)
    wanted = sum(min(len(each.found(view.snapshot)), _ROWS_FIRST) for each in PANELS)
    spare = height - len(lines) - 3 * len(PANELS) - 2 - max(wanted, len(PANELS))
    lines += [words_of([each]) for each in _fitting(told, max(spare, _LEAST_WARNINGS))]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    is_low = height < len(lines) + 4 * len(PANELS) + 2
    panels = [view.panel] if is_low else list(range(len(PANELS)))
    rows = [PANELS[n].rows(view.snapshot, view.orders[n]) for n in panels]
    room = height - len(lines) - 3 * len(panels) - 2
    counts = shares([len(each) for each in rows], room, chosen=panels.index(view.panel))
    parts: list[RenderableType] = [*lines]
    for n, found, count in zip(panels, rows, counts, strict=True):
        table = drawn(PANELS[n].columns, found[:count], width) if count else Text(PANELS[n].empty, "dim")
        parts += [Text(""), _name(view, n, count, len(found)), table]
    return Group(*parts, Text(""), Text(_HELP, "dim", no_wrap=True, overflow="ellipsis"))


def _title(view: View) -> Text:
    title = Text("holdfast top", "bold")
    title.append(f"  {moment(view.snapshot.now)} UTC", "not bold")
    if view.is_paused:
        title.append("  paused: p goes on", "not bold yellow")
    else:
        title.append(f"  every {length(view.interval)}", "not bold dim")
    title.append(f"  {view.place}", "not bold dim")
    return title


def _fitting(told: list[Cell], room: int) -> list[Cell]:
    """The first ones, which are the worst, and how many more there are."""
    if len(told) <= room:
        return told
    shown = told[: room - 1]
    return [*shown, Cell(f"! and {len(told) - len(shown):,} more", "yellow")]


def _wrapped(words: Sequence[Cell], width: int) -> list[Text]:
    """In as many lines as they need."""
    lines: list[list[Cell]] = [[]]
    for word in words:
        if lines[-1] and sum(len(each) + 2 for each in lines[-1]) + len(word) > width:
            lines.append([])
        lines[-1].append(word)
    return [words_of(line) for line in lines]


def _name(view: View, n: int, shown: int, known: int) -> Text:
    panel = PANELS[n]
    order = panel.orders[view.orders[n] % len(panel.orders)].name
    name = Text(panel.name, "reverse" if n == view.panel else "underline")
    name.append(f" by {order}" + (f", {shown} of {known}" if shown < known else ""), "dim")
    return name


class _Asker(threading.Thread):
    """Asks again and again. It is a daemon: a database that does not answer must not keep the terminal."""

    def __init__(self, ask: Ask, interval: timedelta, wake: Callable[[], None]) -> None:
        super().__init__(name="holdfast-top", daemon=True)
        self._ask, self._wake = ask, wake
        self._interval = interval.total_seconds()
        self._is_over = threading.Event()
        self.is_paused = False
        self._asked_at: float | None = None
        self._answer: tuple[Snapshot | None, str | None] = (None, None)

    def latest(self, before: Snapshot) -> tuple[Snapshot, str | None]:
        """The newest answer, or else the one before it; and why there is none."""
        snapshot, trouble = self._answer
        asked_at = self._asked_at
        waited = 0.0 if asked_at is None else time.monotonic() - asked_at
        if waited >= _PATIENCE_SECONDS:
            trouble = f"no answer from the database for {waited:.0f}s: trying again"
        return snapshot or before, trouble

    def leave(self) -> None:
        self._is_over.set()
        if self.is_alive():
            self.join(_LEAVE_WITHIN_SECONDS)

    def run(self) -> None:
        while not self._is_over.wait(self._interval):
            if self.is_paused:
                continue
            self._asked_at = time.monotonic()
            try:
                self._answer = self._ask(), None
            except Exception as error:  # noqa: BLE001  # shown, then it goes on
                self._answer = self._answer[0], _trouble(error)
            self._asked_at = None
            if not self._is_over.is_set():
                self._wake()


def _trouble(error: Exception) -> str:
    told = " ".join(str(error).split())
    if not isinstance(error, HoldfastError):
        told = f"{type(error).__name__}: {told}" if told else type(error).__name__
    return f"trying again: {visible(told)}"


@contextmanager
def _silence() -> Iterator[None]:
    """A line of the log would tear the screen; what it says of an outage is shown there."""
    logger, handler = logging.getLogger("holdfast"), logging.NullHandler()
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class _Wakes:
    """What select waits for: an answer, another size of the window, Ctrl-Z."""

    def __init__(self) -> None:
        self.woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._is_asked_to_stop = False

    def wake(self) -> None:
        with suppress(OSError):  # it is full, or closed: nobody waits for it
            os.write(self._waker, b".")

    def takes_stop(self) -> bool:
        """Whether the operator has typed Ctrl-Z since it was last asked."""
        asked, self._is_asked_to_stop = self._is_asked_to_stop, False
        return asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        resized = signal.signal(signal.SIGWINCH, lambda *_: None)
        stopped = signal.signal(signal.SIGTSTP, self._ask_to_stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTSTP, stopped)
            signal.signal(signal.SIGWINCH, resized)
            signal.set_wakeup_fd(before)
            os.close(self.woken)
            os.close(self._waker)

    def _ask_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._is_asked_to_stop = True
