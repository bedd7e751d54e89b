"""The entry point of Holdfast: an App knows its kinds of jobs, enqueues jobs, and runs workers."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.app_connections import AppConnections
from holdfast.background_worker import worker_running
from holdfast.decorators import Decorators
from holdfast.domain.duration import Length
from holdfast.domain.job import check_ids
from holdfast.domain.redaction import Redaction
from holdfast.domain.retention import EVENTS, Retention
from holdfast.event_writer import EventWriter
from holdfast.flows.event_payload import payload_text
from holdfast.flows.events import Event
from holdfast.flows.operators import FlowOperators
from holdfast.handle import Handle
from holdfast.insights.audit import Audit
from holdfast.insights.failures import Failures
from holdfast.insights.jobs import Jobs
from holdfast.insights.kinds import Kinds
from holdfast.insights.operations import Operations
from holdfast.insights.workers import Workers
from holdfast.job import Call, Job
from holdfast.job_writer import JobWriter
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.statement import Statement
from holdfast.producer.ambient_connection import AmbientConnection, no_ambient_connection
from holdfast.queue_operators import QueueOperators
from holdfast.schedules.api import Schedules
from holdfast.settings import (
    read_pool,
    read_readers,
    read_retention,
    read_schema,
    read_slots,
    read_switch,
    read_target,
)
from holdfast.stop_signals import stopping_a_program
from holdfast.telemetry.events import Reader
from holdfast.worker.job_kind import ErrorHook, Hook, Hooks, declared_redactions
from holdfast.worker.options import WorkerOptions
from holdfast.worker.queue_choice import QueuesAsked
from holdfast.worker.worker import Worker
from holdfast.worker_maker import WorkerMaker, check_given_once
from holdfast.worker_program import run_as_program

R = TypeVar("R")
T = TypeVar("T")


class App(Decorators):
    """`App()` connects to HOLDFAST_DSN, `App("postgresql://…")` to a server, `App("embedded")` to a private
    server that it starts.

    The arguments are checked at once. Nothing is opened before the first use, which also reads the variable.
    `async with app:` opens the connections, and closes them.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = "holdfast",
        pool: PoolOptions | None = None,
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: ErrorHook | None = None,
        on_dead: ErrorHook | None = None,
        on_lease_lost: Hook | None = None,
        on_expired: ErrorHook | None = None,
        on_cancelled: ErrorHook | None = None,
        slots: Mapping[str, int] | None = None,
        retention: Retention | None = None,
        readers: Sequence[Reader] = (),
        require_conn: bool = False,
    ) -> None:
        super().__init__(
            Hooks(on_start, on_success, on_failure, on_dead, on_lease_lost, on_expired, on_cancelled),
            lambda kind: Job(self, self._job_writer, kind),
        )
        if dsn is not None:
            read_target(dsn)
        self.schema = read_schema(schema)
        self.slots = read_slots(slots)
        heard_by, kept = read_readers(readers), read_retention(retention)
        is_conn_required = read_switch("require_conn", require_conn)
        self._connections = AppConnections(dsn, self.schema, read_pool(pool))
        self._job_writer = JobWriter(self, self._connections, is_conn_required=is_conn_required)
        self._worker_maker = WorkerMaker(self, self._connections, self.slots, heard_by, kept)
        self._event_writer = EventWriter(self.schema, self._connections, self._job_writer.connection_for)
        self.flows = FlowOperators(
            self.schema,
            self._connections,
            lambda: [kind.name for kind in self.declared_kinds.values() if kind.style in ("flow", "machine")],
            lambda: self._worker_maker.keeping,
            self._redactions,
        )
        self.queues = QueueOperators(
            self.schema,
            self._connections,
            lambda: {*self.slots, *(kind.policy.queue for kind in self.declared_kinds.values())},
        )
        self.failures = Failures(self.schema, self._connections, self._redactions)
        self.jobs = Jobs(self.schema, self._connections, lambda: self._worker_maker.keeping, self._redactions)
        self.operations = Operations(self.schema, self._connections, lambda: self._worker_maker.keeping)
        self.kinds = Kinds(self.schema, self._connections)
        self.audit = Audit(self.schema, self._connections)
        self.workers = Workers(self.schema, self._connections)
        self.schedules = Schedules(
            self.schema, self._connections, self._job_writer.check_own, self._redactions
        )

    def _redactions(self) -> Mapping[str, Redaction]:
        """What this app's own code knows to be secret, beside what workers have stored."""
        return declared_redactions(self.declared_kinds)

    async def enqueue_many(self, calls: Iterable[Call[Any]], *, conn: object = None) -> list[Handle[Any]]:
        """Write any number of jobs, of any kinds, all or none; on `conn`'s transaction if one is given.

        Given a generator, calls are made while Postgres writes the calls before them.
        """
        return await self._job_writer.enqueue_many(calls, conn)

    def enqueue_many_sync(self, calls: Iterable[Call[Any]], *, conn: object = None) -> list[Handle[Any]]:
        """The same, blocking."""
        return self._job_writer.enqueue_many_sync(calls, conn)

    def using(self, *, conn: object) -> AmbientConnection:
        """Every verb of this app that is called in the block without a `conn` uses this one: jobs, events and
        operators' verbs. `async with app.using(conn=session):` in a coroutine, `with …` in a plain function.

        Valid in the task or thread that entered it; those that it starts are refused. Blocks nest.
        """
        return AmbientConnection(self._connections, conn)

    def handle(self, job: int) -> Handle[Any]:
        """A handle on any job, by its id. Its result is plain JSON; the result of `job.handle` is typed."""
        check_ids([job])
        return Handle(self, None, job, is_new=False)

    async def run(self, statement: Statement[T]) -> list[T]:
        """Run a statement of `holdfast.storage` on this app's connections."""
        return await (await self._connections.opened()).database.run(statement)

    def run_sync(self, statement: Statement[T]) -> list[T]:
        """The same, blocking."""
        return self._connections.opened_blocking().database.run(statement)

    def event(self, name: str, type: type[T]) -> Event[T]:  # noqa: A002  # what it is
        """An event whose payloads are of one type: `await event.emit(key, value)` refuses another one, and
        `await flow.wait(event, key)` gives it. The same event for the same name and type; another type for a
        known name is refused. Opens nothing.
        """
        return self._event_writer.typed(name, type)

    async def emit(
        self, event: str, payload: object = None, *, conn: object = None, keep: Length = EVENTS
    ) -> None:
        """Send an event. Flows that wait for it continue; if none waits, the first flow that asks for it
        within `keep` gets it. On `conn`'s transaction if one is given.
        """
        await self._event_writer.write(event, payload_text(event, payload), conn, keep)

    def emit_sync(
        self, event: str, payload: object = None, *, conn: object = None, keep: Length = EVENTS
    ) -> None:
        """The same, blocking."""
        self._event_writer.write_sync(event, payload_text(event, payload), conn, keep)

    async def run_worker(
        self,
        *,
        queues: QueuesAsked | None = None,
        slots: Mapping[str, int] | None = None,
        grace: Length | None = None,
        options: WorkerOptions | None = None,
    ) -> None:
        """Run jobs until SIGTERM or SIGINT: the first signal drains, the second stops at once.

        `queues`: exactly these, with how many jobs of each may run at once, or only their names; by default
        every queue that this app's jobs name. `slots`: how many jobs of a queue may run at once where
        `queues` does not say it; by default those of the app, else 100. `grace`: how long they may go on when
        told to stop, by default "30s". Or `options` for all.
        """
        check_given_once(queues, slots, grace, options)
        with no_ambient_connection():
            worker = await self._worker_maker.make(queues, slots, grace, options)
            await run_as_program(worker, stopping_a_program(worker))

    @asynccontextmanager
    async def worker(
        self,
        *,
        queues: QueuesAsked | None = None,
        slots: Mapping[str, int] | None = None,
        grace: Length | None = None,
        options: WorkerOptions | None = None,
    ) -> AsyncIterator[Worker]:
        """Run a worker in the background, such as in a web app's lifespan. It drains when the block ends."""
        check_given_once(queues, slots, grace, options)
        async with worker_running(await self._worker_maker.make(queues, slots, grace, options)) as worker:
            yield worker

    @property
    def own_queues(self) -> list[str]:
        """The queues of this app's declared jobs."""
        return self._worker_maker.own_queues

    async def migrate(self) -> int:
        """Create Holdfast's tables, or upgrade them to this release. Returns the schema's version. Many
        processes may call it at once. The process that starts a private server migrates it.
        """
        import asyncio

        return (await asyncio.to_thread(self._connections.migrate)).to_version

    def migrate_sync(self) -> int:
        """The same, blocking."""
        return self._connections.migrate().to_version

    async def open(self) -> None:
        """Open the connections of this event loop now, and check the schema; start and migrate a private
        server. Without it the first use does so, but not one on a connection of yours.
        """
        await self._connections.opened()

    def open_sync(self) -> None:
        """The same for blocking callers."""
        self._connections.opened_blocking()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this event loop; the private server ends with its last user."""
        await self._connections.close()

    def close_sync(self) -> None:
        """The same for a program without an event loop."""
        self._connections.close_blocking()


def worker_maker_of(app: App) -> WorkerMaker:
    """For `holdfast worker`, which makes a worker and runs it in its own way."""
    return app._worker_maker  # noqa: SLF001  # a part of the App that users do not see
