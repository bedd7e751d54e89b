"""Ctrl-C under `asyncio.run`: the first one cancels the main task, the second raises KeyboardInterrupt in the
middle of whatever runs. A worker that is drained by the first takes the second as a wish to hurry.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

Interrupts = Literal["none yet", "one", "not ours"]


def interrupts() -> Interrupts:
    """How often Ctrl-C has cancelled this event loop's main task; not ours to say where a web server, or the
    program itself, has a handler of its own.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not isinstance(handler, partial):
        return "not ours"
    count = getattr(getattr(handler.func, "__self__", None), "_interrupt_count", None)
    if getattr(handler.func, "__name__", "") != "_on_sigint" or not isinstance(count, int):
        return "not ours"
    return "one" if count else "none yet"


@contextmanager
def next_interrupt_calls(hurry: Callable[[], None], *, is_taken: bool) -> Iterator[None]:
    """Once, and in the event loop: the one after that does what it does to any program."""
    if not is_taken:
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def take(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        hurry()

    signal.signal(signal.SIGINT, take)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is take:
            signal.signal(signal.SIGINT, before)
