"""Runs a worker as the main work of a program: `app.run_worker()` and `holdfast worker` both do."""

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from holdfast.worker.worker import Worker

_DEFAULT_THRESHOLDS = (700, 2_000)  # of Python until 3.12, and since
_THRESHOLD = 10_000


async def run_as_program(worker: Worker, signals: AbstractContextManager[None]) -> None:
    """Until the worker has stopped. `signals` are heeded meanwhile."""
    with signals, tuned_garbage_collector():
        await worker.run()


@contextmanager
def tuned_garbage_collector() -> Iterator[None]:
    """What was imported lives as long as the worker: looking through all of it for garbage, again and again,
    would take an eighth of the time of a busy worker. Nearly as much goes where garbage is looked for after
    every 700 objects, which is what fifty running jobs consist of. A threshold that the program sets stays.
    """
    threshold = gc.get_threshold()
    if threshold[0] in _DEFAULT_THRESHOLDS:
        gc.set_threshold(_THRESHOLD, *threshold[1:])
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
