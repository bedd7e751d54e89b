"""Makes the callers of a worker: one for each style of handler, with its threads and child processes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from holdfast.worker import django_connections
from holdfast.worker.callers import Caller, Coroutines, Threads
from holdfast.worker.connections import Connections
from holdfast.worker.job_kind import Style
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.lease_postponer import LeasePostponer
from holdfast.worker.processes import Processes
from holdfast.worker.processes.places import Places
from holdfast.worker.worker_extension import WorkerExtension

_MOST_THREADS = 1_000


@dataclass(frozen=True, slots=True)
class OpenedCallers:
    by_style: dict[Style, Caller]
    _threads: JobThreads

    def allow_threads(self, more: int) -> None:
        """So many more jobs may run at once."""
        self._threads.allow(more, most=_MOST_THREADS)


@asynccontextmanager
async def opened_callers(
    connections: Connections,
    postponer: LeasePostponer,
    places: Places,
    extension: WorkerExtension,
    *,
    slots: int,
    patience: Callable[[], timedelta],
) -> AsyncIterator[OpenedCallers]:
    """Threads and child processes end with the block; threads that do not are waited for with `patience`."""
    threads = JobThreads(min(slots, _MOST_THREADS))
    processes = Processes(places, postpone=postponer.postpone)
    async with postponer, processes:
        try:
            callers: dict[Style, Caller] = {
                "coroutine": Coroutines(),
                **extension.callers(connections, threads, processes),
            }
            if django_connections.is_loaded():
                callers = {
                    style: django_connections.AroundCoroutines(caller) for style, caller in callers.items()
                }
            by_style = {**callers, "thread": Threads(threads), "process": processes}
            yield OpenedCallers(by_style, threads)
        finally:
            ending = [asyncio.wrap_future(last) for last in threads.close()]
            if ending:
                await asyncio.wait(ending, timeout=patience().total_seconds())
