"""A worker beside other code, such as in a web app's lifespan: `async with app.worker():`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from holdfast.producer.ambient_connection import no_ambient_connection
from holdfast.stop_signals import interrupts, next_interrupt_calls, say_waiting
from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")

_HINTS = {
    "none yet": "; press Ctrl-C to release them at once",
    "one": "; press Ctrl-C again to release them at once",
    "not ours": "",
}


@asynccontextmanager
async def worker_running(worker: Worker) -> AsyncIterator[Worker]:
    """In the background while the block runs; then drained. A TaskGroup would wrap the errors of the block,
    so there is none.
    """
    with no_ambient_connection():
        task = asyncio.create_task(worker.run(), name="holdfast-worker")
    started = asyncio.create_task(worker.started.wait())
    try:
        await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            telling = partial(_tell_of_an_early_end, worker)
            task.add_done_callback(telling)
            yield worker
            task.remove_done_callback(telling)
    finally:
        started.cancel()
        worker.stopping.ask()
        await _drained(worker, task)


async def _drained(worker: Worker, task: "asyncio.Task[None]") -> None:
    """A cancellation while it waits, as by Ctrl-C, gives what runs back at once, and then leaves. One more
    leaves everything as it is, for other workers to rescue.
    """
    told = interrupts()
    loop = asyncio.get_running_loop()
    level = logging.INFO if told == "not ours" else logging.WARNING
    hurried: asyncio.CancelledError | None = None

    def hurry() -> None:
        loop.call_soon_threadsafe(worker.stopping.ask)

    # A worker that has not started has nothing to give back, and may wait for a database that is silent.
    with next_interrupt_calls(hurry, is_taken=told == "one" and worker.started.is_set()):
        say_waiting(worker, level, _HINTS[told])  # now that a second one is heard
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


def _tell_of_an_early_end(worker: Worker, task: "asyncio.Task[None]") -> None:
    """At once, because the block continues: it may be a web server that ends in a month."""
    if not task.cancelled() and (error := task.exception()):
        _log.error("the worker has stopped: no jobs run in this process any more", exc_info=error)
    elif worker.stopping.is_asked_by_operator:
        _log.warning("the worker has stopped as an operator asked: no jobs run in this process any more")
