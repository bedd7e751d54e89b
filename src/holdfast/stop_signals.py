"""How signals stop a worker: in a program that runs one, in `holdfast worker`, and beside other code.

The first signal drains: running jobs may end. The second gives them back at once. What a third one does
depends on the program.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Literal

from holdfast.domain.duration import compact
from holdfast.telemetry.batching_handler import write_out
from holdfast.telemetry.log_lines import say
from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SECOND = 2
_MOST_KINDS = 5
# Python waits for its threads before it ends, and a thread that runs a plain function cannot be stopped.
_PARTING_SECONDS = 5.0
_HURRIED_SECONDS = 0.5
_PAST_GRACE_SECONDS = 30.0

Heed = Callable[[signal.Signals], None]
Orders = Callable[[Callable[[bool], None]], None]
"""Calls back from another thread for each order, with whether it is to hurry."""


class Stopper:
    """Passes requests to stop on to a worker, from a signal handler or another thread."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self.asked = 0

    def drain(self, level: int = logging.INFO) -> None:
        """`level` is that of the line which says what is waited for."""
        self._tell(partial(self._drain, level))

    def hurry(self) -> None:
        self._tell(self._hurry)

    @property
    def is_hurried(self) -> bool:
        return self._worker.stopping.hurried.is_set()

    def _tell(self, request: Callable[[], None]) -> None:
        self.asked += 1
        with suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(request)

    def _drain(self, level: int) -> None:
        if not self._worker.stopping.draining.is_set():
            if self._worker.running_kinds():
                say_waiting(self._worker, level, "; a second signal releases them at once")
            else:
                _log.info("stopping: no jobs are running")
        self._worker.stopping.draining.set()

    def _hurry(self) -> None:
        if not self.is_hurried:
            _log.info("stopping at once: releasing the running jobs")
        self._worker.stopping.hurried.set()
        self._worker.stopping.draining.set()


@contextmanager
def stopping_a_program(worker: Worker) -> Iterator[None]:
    """For `app.run_worker()`. A third signal does what it does to any program: parting from a database that
    does not answer takes its time. Signals go to the main thread, so in another one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopper = Stopper(worker)

    def heed(number: signal.Signals) -> None:
        if not stopper.asked:
            # A person who presses Ctrl-C is watching; SIGTERM is what every deployment sends.
            stopper.drain(logging.WARNING if number == signal.SIGINT else logging.INFO)
            return
        stopper.hurry()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = _handle(heed)
    try:
        yield
    finally:
        _restore(before)


@contextmanager
def ending_this_process(worker: Worker, orders: Orders | None) -> Iterator[None]:
    """For `holdfast worker`. Once told to stop, this process ends soon after its worker, whatever its threads
    still do. A third signal ends it at once; its jobs are left to be rescued.

    With `orders`, a supervisor counts the signals. A service manager may signal every process, so each signal
    here only drains.
    """
    stopper = Stopper(worker)

    def heed(_: signal.Signals) -> None:
        if orders is not None or not stopper.asked:
            stopper.drain()
        elif stopper.asked < _SECOND:
            stopper.hurry()
        else:
            write_out()
            os._exit(1)

    def obey(is_hurried: bool) -> None:  # noqa: FBT001  # the shape of Orders
        stopper.hurry() if is_hurried else stopper.drain()
        # A job may block the event loop, and the supervisor that would kill this process may be gone.
        _exit_in(worker.grace.total_seconds() + _PAST_GRACE_SECONDS, 1)

    before = _handle(heed)
    if orders is not None:
        orders(obey)
    code = 1
    try:
        yield
        code = 0
    finally:
        if stopper.asked or worker.stopping.is_asked_by_operator:
            _exit_in(_HURRIED_SECONDS if stopper.is_hurried else _PARTING_SECONDS, code)
        else:
            _restore(before)


def _handle(heed: Heed) -> dict[signal.Signals, object]:
    """Answers the handlers before. Not the event loop's own ones: the third signal must count while a job
    blocks the loop.
    """

    def heard(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the shape of a handler
        heed(signal.Signals(number))

    return {number: signal.signal(number, heard) for number in _SIGNALS}


def _restore(before: dict[signal.Signals, object]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)  # type: ignore[arg-type]  # as Python answered it


def _exit_in(seconds: float, code: int) -> None:
    """End this process, unless it has ended by itself until then."""

    def end() -> None:
        write_out()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def say_waiting(worker: Worker, level: int, hint: str) -> None:
    """Say at once what is waited for. Where no log is set up, Python shows warnings on stderr."""
    kinds = worker.running_kinds()
    if not kinds:
        return
    shown = [kind if count == 1 else f"{kind} ({count})" for kind, count in kinds.most_common(_MOST_KINDS)]
    more = [f"{len(kinds) - _MOST_KINDS} more"] if len(kinds) > _MOST_KINDS else []
    say(
        _log,
        level,
        f"stopping: waiting up to {compact(worker.grace)} for running jobs{hint}",
        jobs=kinds.total(),
        kinds=", ".join(shown + more),
    )


Interrupts = Literal["none yet", "one", "not ours"]


def interrupts() -> Interrupts:
    """How often Ctrl-C has cancelled the main task of `asyncio.run`; "not ours" where a web server, or the
    program itself, has a handler of its own.

    The count has no public name. A task's `cancelling()` does not tell Ctrl-C from a timeout around the
    worker, after which the program goes on and Ctrl-C must end it. Where the count is missing, as in another
    Python, the second Ctrl-C raises KeyboardInterrupt, as it does in any program.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not isinstance(handler, partial):
        return "not ours"
    runner = getattr(handler.func, "__self__", None)
    count = getattr(runner, "_interrupt_count", None)
    if not isinstance(runner, asyncio.Runner) or not isinstance(count, int):
        return "not ours"
    return "one" if count else "none yet"


@contextmanager
def next_interrupt_calls(hurry: Callable[[], None], *, is_taken: bool) -> Iterator[None]:
    """Take the next Ctrl-C, if `is_taken`; the one after that does what it does to any program."""
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
