"""`holdfast worker` in one process: the event loop, the worker, and what it tells its supervisor."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from holdfast.app import App, worker_maker_of
from holdfast.cli.supervised import FINISHED, STARTED, Supervised
from holdfast.cli.worker_arguments import WorkerArguments
from holdfast.errors import DatabaseError
from holdfast.postgres.failure_log import FailureLog
from holdfast.stop_signals import ending_this_process
from holdfast.storage.idleness import is_idle
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from holdfast.worker_program import run_as_program

_log = logging.getLogger("holdfast.worker")

_LOOK_SECONDS = 0.1


def work(app: App, arguments: WorkerArguments, supervised: Supervised | None) -> None:
    """Until a signal or the supervisor stops it or, with `--once`, no job is left."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_work(app, arguments, supervised))


async def _work(app: App, arguments: WorkerArguments, supervised: Supervised | None) -> None:
    options = arguments.options(app)
    # Not `async with app:`, which would open connections that a worker has no use for.
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.close)
        worker = await worker_maker_of(app).make(None, arguments.slots, arguments.grace, options)
        orders = None if supervised is None else supervised.orders
        watching = asyncio.create_task(_watch(app, worker, options, arguments, supervised))
        try:
            await run_as_program(worker, ending_this_process(worker, orders))
        finally:
            watching.cancel()


async def _watch(
    app: App,
    worker: Worker,
    options: WorkerOptions,
    arguments: WorkerArguments,
    supervised: Supervised | None,
) -> None:
    await worker.started.wait()
    if supervised is not None:
        supervised.say(STARTED)
    failures = FailureLog(_log, "looking whether any job is left (--once)")
    while arguments.once and not worker.stopping.draining.is_set():
        if worker.id is not None and await _is_idle(app, worker.id, options, failures):
            if supervised is not None:
                supervised.say(FINISHED)
            worker.stopping.draining.set()
        await asyncio.sleep(_LOOK_SECONDS)


async def _is_idle(app: App, worker: int, options: WorkerOptions, failures: FailureLog) -> bool:
    try:
        question = is_idle(
            app.schema, worker=worker, queues=tuple(options.queues), kinds=tuple(app.declared_kinds)
        )
        answer = (await app.run(question))[0]
    except DatabaseError as error:
        failures.failed(error)
        return False
    failures.worked()
    return answer


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
