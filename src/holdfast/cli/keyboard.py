"""Keys of a terminal, one at a time and without Enter; the terminal is as it was when the block ends."""

import os
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Key = Literal["quit", "pause", "next panel", "previous panel", "next order", "previous order"]

_KEYS: dict[bytes, Key] = {
    b"q": "quit",
    b"p": "pause",
    b" ": "pause",
    b"\t": "next panel",
    b"\x1b[B": "next panel",
    b"\x1bOB": "next panel",
    b"\x1b[Z": "previous panel",
    b"\x1b[A": "previous panel",
    b"\x1bOA": "previous panel",
    b"\x1b[C": "next order",
    b"\x1bOC": "next order",
    b"\x1b[D": "previous order",
    b"\x1bOD": "previous order",
}
_LONGEST = 64


@contextmanager
def keys_of(terminal: int) -> Iterator[None]:
    """Ctrl-C stays what it is."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def read_keys(terminal: int) -> list[Key]:
    """Those that were pressed, as far as they mean something. A terminal that is gone quits."""
    try:
        pressed = os.read(terminal, _LONGEST)
    except OSError:
        pressed = b""
    if not pressed:
        return ["quit"]
    return list(_told_apart(pressed))


def _told_apart(pressed: bytes) -> Iterator[Key]:
    while pressed:
        known = next((code for code in _KEYS if pressed.startswith(code)), None)
        if known is not None:
            yield _KEYS[known]
        pressed = pressed[len(known) if known else 1 :]
