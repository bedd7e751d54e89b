"""`holdfast worker` in one process: the event loop, the worker, and what it tells its supervisor."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from holdfast.app import App, worker_maker_of
from holdfast.cli.exit_codes import Exit
from holdfast.cli.service_notifier import READY, STOPPING, ServiceNotifier
from holdfast.cli.supervised import FINISHED, STARTED, STOPPED, Supervised
from holdfast.cli.worker_arguments import WorkerArguments
from holdfast.cli.worker_metrics import MetricsAddress, WorkerMetrics, worker_metrics
from holdfast.errors import DatabaseError
from holdfast.postgres.failure_log import FailureLog
from holdfast.stop_signals import ending_this_process
from holdfast.storage.idleness import is_idle
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from holdfast.worker_program import run_as_program

_log = logging.getLogger("holdfast.worker")

_LOOK_SECONDS = 0.1


def work(
    app: App,
    arguments: WorkerArguments,
    supervised: Supervised | None,
    metrics_at: MetricsAddress | None = None,
    notifier: ServiceNotifier | None = None,
) -> Exit:
    """Until a signal or the supervisor stops it or, with `--once`, no job is left. FAILED: it had to leave
    runs to other workers.
    """
    notifier = notifier or ServiceNotifier()
    try:
        with (
            worker_metrics(app, metrics_at, arguments.lease, notifier) as metrics,
            asyncio.Runner(loop_factory=_loop_factory()) as runner,
        ):
            return runner.run(_work(app, arguments, supervised, metrics, notifier))
    except BaseExceptionGroup as group:
        raise _only(group) from None


async def _work(
    app: App,
    arguments: WorkerArguments,
    supervised: Supervised | None,
    metrics: WorkerMetrics,
    notifier: ServiceNotifier,
) -> Exit:
    options = arguments.options(app)
    # Not `async with app:`, which would open connections that a worker has no use for.
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.close)
        worker = await worker_maker_of(app).make(
            None, arguments.slots, arguments.grace, options, metrics.readers
        )
        metrics.watch(worker)
        orders = None if supervised is None else supervised.orders
        watching = asyncio.create_task(
            _watch(app, worker, options, arguments, supervised=supervised, notifier=notifier)
        )
        try:
            await run_as_program(worker, ending_this_process(worker, orders))
        finally:
            watching.cancel()
            await metrics.unwatch()
        return Exit.FAILED if worker.unsettled else Exit.OK


async def _watch(
    app: App,
    worker: Worker,
    options: WorkerOptions,
    arguments: WorkerArguments,
    *,
    supervised: Supervised | None,
    notifier: ServiceNotifier,
) -> None:
    await worker.started.wait()
    notifier.say(READY)
    if supervised is not None:
        supervised.say(STARTED)
    failures = FailureLog(_log, "looking whether any job is left (--once)")
    while arguments.once and not worker.stopping.draining.is_set():
        if worker.id is not None and await _is_idle(app, worker.id, options, failures):
            if supervised is not None:
                supervised.say(FINISHED)
            worker.stopping.draining.set()
        await asyncio.sleep(_LOOK_SECONDS)
    await worker.stopping.draining.wait()
    notifier.say(STOPPING)
    if supervised is not None and worker.stopping.is_asked_by_operator:
        supervised.say(STOPPED)


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


def _only(error: BaseException) -> BaseException:
    """The one error that services, nested in groups, have ended with."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
