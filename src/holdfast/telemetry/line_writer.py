"""Writes lines from its own thread, so that work continues while the reader of the log is slow or gone."""

import threading
import time
from queue import Empty, SimpleQueue
from typing import TextIO

from holdfast.telemetry.line_output import LineOutput, Notice

# How long a line waits for others, to be written with them.
_GATHER_SECONDS = 0.005
# In characters: some 40,000 lines. New lines are dropped beyond it, until half of it is written.
MOST_WAITING = 8_000_000
_PORTION = 65_536
# How long `flush` waits: in all, and for a reader that takes nothing.
_PATIENCE_SECONDS = 5.0
_STUCK_SECONDS = 1.0
_LOOK_SECONDS = 0.1


class _Mark:
    """A place in the queue of lines: reached when all lines before it are written and lost ones reported."""

    def __init__(self, *, is_last: bool) -> None:
        self.reached = threading.Event()
        self.is_last = is_last


class LineWriter:
    """Lines are written in the order in which they were put. `put` is called under a logging handler's lock;
    `flush` and `close` from anywhere, also from a signal handler.
    """

    def __init__(self, stream: TextIO, notice: Notice) -> None:
        self._output = LineOutput(stream, notice)
        self._queue: SimpleQueue[str | _Mark] = SimpleQueue()
        # In characters, and in lines. Each is counted up by one side alone, so none needs a lock.
        self._put = 0
        self._written = 0
        self._dropped = 0
        self._told = 0
        self._is_full = False
        threading.Thread(target=self._run, name="holdfast-log", daemon=True).start()

    def put(self, line: str) -> None:
        waiting = self._put - self._written
        if waiting > (MOST_WAITING // 2 if self._is_full else MOST_WAITING):
            self._is_full = True
            self._dropped += 1
            return
        if self._is_full:
            self._is_full = False
            self._queue.put(_Mark(is_last=False))
        self._put += len(line)
        self._queue.put(line)

    def flush(self) -> bool:
        """Wait until everything that was put is written. False if the reader takes too long."""
        return self._reach(_Mark(is_last=False))

    def close(self) -> bool:
        """As `flush`; and the thread ends once everything is written."""
        return self._reach(_Mark(is_last=True))

    def _reach(self, mark: _Mark) -> bool:
        self._queue.put(mark)
        until = time.monotonic() + _PATIENCE_SECONDS
        while not mark.reached.wait(_LOOK_SECONDS):
            since, now = self._output.writing_since, time.monotonic()
            if now > until or (since is not None and now - since > _STUCK_SECONDS):
                return False
        return True

    def _run(self) -> None:
        is_last = False
        while not is_last:
            first = self._queue.get()
            if isinstance(first, str):
                time.sleep(_GATHER_SECONDS)
            lines, mark = self._gathered(first)
            self._output.write(lines)
            self._written += sum(map(len, lines))
            if mark is not None:
                self._tell_of_dropped()
                mark.reached.set()
                is_last = mark.is_last

    def _gathered(self, item: str | _Mark) -> tuple[list[str], _Mark | None]:
        """What waits, up to a mark, and up to what is written with one call."""
        lines: list[str] = []
        size = 0
        while isinstance(item, str):
            lines.append(item)
            size += len(item)
            if size >= _PORTION:
                return lines, None
            try:
                item = self._queue.get_nowait()
            except Empty:
                return lines, None
        return lines, item

    def _tell_of_dropped(self) -> None:
        dropped = self._dropped
        if dropped > self._told:
            self._output.miss(dropped - self._told, "they were not read in time")
            self._told = dropped
        self._output.tell_of_missing()
