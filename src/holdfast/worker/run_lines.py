"""The log lines of one run, from the moment they are logged until they are handed over to be written."""

from collections import deque
from typing import NamedTuple

from holdfast.domain.kept_logs import CHARACTERS, LINES, KeptLine


class Taken(NamedTuple):
    """Lines to write, numbered up to `last`; those that were written before are kept from `trim` on."""

    lines: list[KeptLine]
    last: int
    size: int
    trim: int = 0


class RunLines:
    """Keeps the newest lines within the bounds, and counts all of them. Whoever calls it holds the lock of
    the `LineCatcher`.
    """

    __slots__ = ("_count", "_lines", "_size", "_written", "is_closed")

    def __init__(self) -> None:
        self._lines: deque[KeptLine] = deque()
        self._size = 0
        self._count = 0
        # What was taken before: its last number, how many lines, how long.
        self._written: deque[tuple[int, int, int]] = deque()
        self.is_closed = False

    def add(self, line: KeptLine) -> None:
        if self.is_closed:
            return
        self._count += 1
        self._lines.append(line)
        self._size += len(line.message)
        while len(self._lines) > LINES or self._size > CHARACTERS:
            self._size -= len(self._lines.popleft().message)

    def take(self) -> Taken | None:
        """What has gathered since the last time."""
        if not self._lines:
            return None
        lines, self._lines = list(self._lines), deque()
        size, self._size = self._size, 0
        self._written.append((self._count, len(lines), size))
        return Taken(lines, self._count, size, self._trim())

    def _trim(self) -> int:
        """Forget the oldest of what was written that the newer lines leave no room for."""
        number = sum(lines for _, lines, _ in self._written)
        length = sum(size for _, _, size in self._written)
        last = 0
        while number > LINES or length > CHARACTERS:
            last, lines, size = self._written.popleft()
            number, length = number - lines, length - size
        return last
