"""A standard input that says it is a terminal, and commands that run in a real pseudo-terminal."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
_STYLES = re.compile(r"\x1b\[[0-9;]*m")
_CODES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>])")


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Terminal:
    """A command on a terminal: what it has written so far, and a keyboard."""

    def __init__(self, process: "subprocess.Popen[bytes]", leader: int) -> None:
        self.process = process
        self.written = ""
        self._leader = leader
        self._since = 0

    @property
    def text(self) -> str:
        """What was written since `forget`, without colours and movements of the cursor."""
        return _CODES.sub("", self.written[self._since :])

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.replace("\r", "").splitlines()]

    def type(self, keys: str) -> None:
        os.write(self._leader, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    @property
    def is_as_before(self) -> bool:
        """Whether what is typed is echoed and comes in lines, and the whole screen was given back."""
        _, _, _, local, *_ = termios.tcgetattr(self._leader)
        is_given_back = self.written.count("\x1b[?1049h") == self.written.count("\x1b[?1049l")
        is_cursor_shown = self.written.rfind("\x1b[?25h") >= self.written.rfind("\x1b[?25l")
        has_lines = bool(local & termios.ICANON and local & termios.ECHO)
        return has_lines and is_given_back and is_cursor_shown

    def forget(self) -> None:
        self._since = len(self.written)

    def read_until(self, text: str, *, within: float = 60.0) -> str:
        """All that was written, once `text` is in it."""
        deadline = time.monotonic() + within
        while text not in self.text:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} did not come:\n{self.text}")
        return self.text

    def read_to_the_end(self, *, within: float = 60.0) -> str:
        deadline = time.monotonic() + within
        while self._read(deadline - time.monotonic()):
            pass
        self.process.wait(timeout=10)
        return self.text

    def read_for(self, seconds: float) -> None:
        """What it writes, so that it never waits for a reader."""
        deadline = time.monotonic() + seconds
        while self._read(deadline - time.monotonic()):
            pass

    def _read(self, within: float) -> bool:
        """False at the end, or if nothing came in time."""
        if within <= 0 or not select.select([self._leader], [], [], within)[0]:
            return False
        try:
            read = os.read(self._leader, 65536)
        except OSError:  # how a pseudo-terminal tells its end
            return False
        self.written += read.decode(errors="replace")
        return bool(read)


@contextmanager
def terminal(*arguments: str, columns: int = 100, lines: int = 40, **variables: str) -> Iterator[Terminal]:
    """Runs a command of `holdfast` until the block ends."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "CI")}
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        [*HOLDFAST, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**inherited, "TERM": "xterm-256color", **variables},
        process_group=0,  # of this session, so that Ctrl-Z stops it: nobody could continue an orphaned one
    )
    os.close(follower)
    try:
        yield Terminal(process, leader)
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def without_styles(text: str) -> str:
    return _STYLES.sub("", text)
