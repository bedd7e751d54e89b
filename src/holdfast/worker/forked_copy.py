"""A copy of this process that a handler has forked, and that comes back to our code: it ends there. It shares
every connection with its worker, and the event loop's own files: run by the copy, the loop would take the
worker's wake-ups and signals, and settle on its connections.
"""

import asyncio
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, NoReturn

is_copy = False
"""Read after every call of a handler."""

_watched: dict[int, asyncio.AbstractEventLoop | None] = {}
_POLITE = ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL))


def watch(loop: asyncio.AbstractEventLoop | None = None) -> None:
    """From now on what is forked from here is a copy. `loop` is the one that this thread runs."""
    global is_copy  # noqa: PLW0603  # a process is one, or it is not
    is_copy = False
    _watched[threading.get_ident()] = loop


def unwatch() -> None:
    _watched.pop(threading.get_ident(), None)


def leave(error: BaseException | None) -> NoReturn:
    """End the copy, as Python would end a process: what it printed is written, an error shown."""
    code: Any = 0
    if isinstance(error, SystemExit):
        code = error.code or 0
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def _end_here() -> NoReturn:
    leave(RuntimeError("a process that a coroutine has forked cannot await: the event loop is its worker's"))


def _in_copy() -> None:
    global is_copy  # noqa: PLW0603  # as above
    if not _watched:
        return
    is_copy = True
    with suppress(ValueError):  # in a thread that Python does not take for the main one
        # A signal to the copy must not reach the worker through the file that both of them hold.
        signal.set_wakeup_fd(-1)
        for number, handler in _POLITE:
            signal.signal(number, handler)
    loop = _watched.get(threading.get_ident())
    if loop is not None:
        # What is ready to run is the worker's, and must not run twice. asyncio has no public name for it:
        # `loop.stop()` runs it before it stops. Where there is no such attribute, as in uvloop, it does run.
        getattr(loop, "_ready", []).clear()
        loop.call_soon(_end_here)
    _watched.clear()


os.register_at_fork(after_in_child=_in_copy)
