"""Writes whole lines to the file behind a stream, many with one call. Other processes may write to it too."""

import os
import select
import stat
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TextIO

_LARGEST_WRITE = 65_536

Notice = Callable[[int, str], str]
"""A line that says how many lines are missing, and why."""


class LineOutput:
    """`writing_since` is when the write began that is under way. Lines that cannot be written, such as to a
    full disk, are counted; as soon as a write works again, a line says how many are missing.
    """

    def __init__(self, stream: TextIO, notice: Notice) -> None:
        self._stream = stream
        self._notice = notice
        self._missing = 0
        self._why = ""
        self._is_torn = False
        self.writing_since: float | None = None

    def write(self, lines: Sequence[str]) -> None:
        for some in _portions([self._encoded(line) for line in lines], self._largest_write()):
            self._write(some)

    def miss(self, count: int, why: str) -> None:
        """Lines were dropped before they came here."""
        self._missing += count
        self._why = why

    def tell_of_missing(self) -> None:
        """Now, and not only before the next line."""
        self._write(())

    def _encoded(self, line: str) -> bytes:
        return line.encode(self._stream.encoding or "utf-8", "backslashreplace")

    def _largest_write(self) -> int:
        """A pipe or a socket keeps a write in one piece up to this size; a file does in any case."""
        try:
            is_file = stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode)
        except (OSError, ValueError):  # it is closed, as the write will find
            is_file = False
        return _LARGEST_WRITE if is_file else select.PIPE_BUF

    def _write(self, lines: Sequence[bytes]) -> None:
        try:
            if self._missing:
                end_of_torn = b"\n" if self._is_torn else b""
                self._send(end_of_torn + self._encoded(self._notice(self._missing, self._why)))
                self._missing, self._is_torn = 0, False
            self._send(b"".join(lines))
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self._missing += len(lines)
            self._why = str(error)

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            self.writing_since = monotonic()
            try:
                # The stream holds nothing back, and its own lock must not be held while a write is stuck.
                sent = os.write(self._stream.fileno(), left)
            except BlockingIOError:  # another process has made it so
                select.select([], [self._stream.fileno()], [])
                sent = 0
            except OSError:
                self._is_torn = self._is_torn or len(left) < len(data)
                raise
            finally:
                self.writing_since = None
            left = left[sent:]


def _portions(lines: Sequence[bytes], largest: int) -> Iterator[list[bytes]]:
    """Lines that fit into one write. A line that is larger has a write of its own."""
    some: list[bytes] = []
    size = 0
    for line in lines:
        if some and size + len(line) > largest:
            yield some
            some, size = [], 0
        some.append(line)
        size += len(line)
    if some:
        yield some
