"""A worker as a program or beside one: signals, background task, event loop."""

import asyncio
import gc
import logging
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.domain.duration import compact
from holdfast.interrupts import interrupts, next_interrupt_calls
from holdfast.producer.ambient_connection import no_ambient_connection
from holdfast.telemetry.log import say
from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")

_DEFAULT_THRESHOLDS = (700, 2_000)  # of Python until 3.12, and since
_THRESHOLD = 10_000
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def run_until_stopped(worker: Worker) -> None:
    """Until a signal asks to drain; a second one to stop at once. A third one does what it does to any
    program: parting from a database that says nothing takes its time.
    """
    loop = asyncio.get_running_loop()
    is_main = threading.current_thread() is threading.main_thread()

    def leave() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    def ask(number: signal.Signals) -> None:
        if not worker.stopping.draining.is_set():
            # Who pressed Ctrl-C looks on; SIGTERM is what every deployment sends.
            level = logging.WARNING if number == signal.SIGINT else logging.INFO
            _say_waiting(worker, level, "; a second signal gives it back at once")
        worker.stopping.ask()
        if worker.stopping.hurried.is_set():
            leave()

    if is_main:
        for number in _SIGNALS:
            loop.add_signal_handler(number, ask, number)
    # What was imported lives as long as this: looking through all of it for garbage, again and again, would
    # take an eighth of the time of a busy worker. Nearly as much goes where garbage is looked for after every
    # 700 objects, of which fifty jobs under way consist. Who has chosen a number keeps it.
    threshold = gc.get_threshold()
    if threshold[0] in _DEFAULT_THRESHOLDS:
        gc.set_threshold(_THRESHOLD, *threshold[1:])
    gc.freeze()
    try:
        await worker.run()
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
        if is_main:
            leave()


@asynccontextmanager
async def worker_running(worker: Worker) -> AsyncIterator[Worker]:
    """In the background while the block runs; then drained. Errors of the block stay as they are, so there is
    no TaskGroup here, which would wrap them.
    """
    with no_ambient_connection():
        task = asyncio.create_task(worker.run(), name="holdfast-worker")
    started = asyncio.create_task(worker.started.wait())
    try:
        await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.add_done_callback(_tell_of_an_early_end)
            yield worker
            task.remove_done_callback(_tell_of_an_early_end)
    finally:
        started.cancel()
        worker.stopping.ask()
        await _drained(worker, task)


async def _drained(worker: Worker, task: "asyncio.Task[None]") -> None:
    """Whoever is cancelled while it waits, as by Ctrl-C, is in a hurry: what runs is given back at once, and
    only then left. Cancelled once more, it leaves everything as it is, for others to rescue.
    """
    told = interrupts()
    loop = asyncio.get_running_loop()
    level = logging.INFO if told == "not ours" else logging.WARNING
    hurried: asyncio.CancelledError | None = None

    def hurry() -> None:
        loop.call_soon_threadsafe(worker.stopping.ask)

    # One that has not started yet may wait for a database that says nothing: there is nothing to give back.
    with next_interrupt_calls(hurry, is_taken=told == "one" and worker.started.is_set()):
        _say_waiting(worker, level, _HINTS[told])  # now that a second one is heard
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancelled:
            hurried = cancelled
            worker.stopping.ask()
            if not worker.started.is_set():
                task.cancel()
        await task
    if hurried is not None:
        raise hurried


_HINTS = {
    "none yet": "; Ctrl-C gives it back at once",
    "one": "; Ctrl-C again gives it back at once",
    "not ours": "",
}
_MOST_KINDS = 5


def _say_waiting(worker: Worker, level: int, hint: str) -> None:
    """At once. Where nobody has set up a log Python shows warnings on stderr."""
    kinds = worker.running_kinds()
    if not kinds:
        return
    shown = [kind if count == 1 else f"{kind} ({count})" for kind, count in kinds.most_common(_MOST_KINDS)]
    more = [f"{len(kinds) - _MOST_KINDS} more"] if len(kinds) > _MOST_KINDS else []
    say(
        _log,
        level,
        f"stopping: waits up to {compact(worker.grace)} for what runs here{hint}",
        jobs=kinds.total(),
        kinds=", ".join(shown + more),
    )


def _tell_of_an_early_end(task: "asyncio.Task[None]") -> None:
    """At once: the block goes on, and may be a web server that ends in a month."""
    if not task.cancelled() and (error := task.exception()):
        _log.error("the worker has ended, nothing runs jobs here any more", exc_info=error)
