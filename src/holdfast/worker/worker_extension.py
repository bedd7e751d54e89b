"""What others let a worker do beside running jobs: chores while it leads, services for all of its time, and
other ways of calling a handler.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.postgres.database import Database
from holdfast.telemetry.events import Emitter
from holdfast.worker.callers import Caller
from holdfast.worker.chores.chore import Chore
from holdfast.worker.connections import Connections
from holdfast.worker.job_kind import Style
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.processes import Processes
from holdfast.worker.service import Service


def _no_services(database: Database, handlers: Database, emitter: Emitter) -> Sequence[Service]:  # noqa: ARG001  # the shape of the others
    return ()


def _no_callers(
    connections: Connections,  # noqa: ARG001  # as above
    threads: JobThreads,  # noqa: ARG001
    processes: Processes,  # noqa: ARG001
) -> Mapping[Style, Caller]:
    return {}


async def _nothing(database: Database) -> None:
    pass


@dataclass(frozen=True, slots=True)
class WorkerExtension:
    """`declare` is awaited before the worker is known to others, and must succeed; `prepare` before the first
    claim. Both get the connections of chores. A service gets these, and those of handlers, which plan the
    user's own queries as usual.
    """

    chores: Sequence[Chore] = ()
    declare: Callable[[Database], Awaitable[None]] = _nothing
    prepare: Callable[[Database], Awaitable[None]] = _nothing
    services: Callable[[Database, Database, Emitter], Sequence[Service]] = _no_services
    callers: Callable[[Connections, JobThreads, Processes], Mapping[Style, Caller]] = _no_callers
