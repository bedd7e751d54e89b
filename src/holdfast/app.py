"""The entry point of Holdfast: an App knows its kinds of jobs, enqueues jobs, and runs workers."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from holdfast.app_connections import AppConnections
from holdfast.background_worker import worker_running
from holdfast.decorators import Decorators
from holdfast.domain.duration import Length
from holdfast.domain.job import check_ids
from holdfast.domain.kept_logs import KeepLogs, read_keep_logs
from holdfast.domain.redaction import Redactions
from holdfast.domain.retention import EVENTS, Retention
from holdfast.domain.states import FinalState
from holdfast.event_writer import EventWriter
from holdfast.flows.event_payload import payload_text
from holdfast.flows.events import Event
from holdfast.flows.flows import Flows
from holdfast.group import Group
from holdfast.group_writer import AskedGroup, GroupWriter
from holdfast.handle import Handle
from holdfast.insights.audit import Audit
from holdfast.insights.doctor import DoctorReport, examine
from holdfast.insights.failures import Failures
from holdfast.insights.fsck import FsckReport, OnProgress
from holdfast.insights.fsck import steps as fsck_steps
from holdfast.insights.groups import Groups
from holdfast.insights.jobs import Jobs
from holdfast.insights.kinds import Kinds
from holdfast.insights.limits import Limits
from holdfast.insights.operations import Operations
from holdfast.insights.overview import read_overview
from holdfast.insights.overview_records import Overview
from holdfast.insights.pruning import Chosen, Prunable, Pruning
from holdfast.insights.queues import Queues
from holdfast.insights.stats import read_stats
from holdfast.insights.stats_records import Stats
from holdfast.insights.step_taker import Steps, take, take_blocking
from holdfast.insights.workers import Workers
from holdfast.job import Call, Job
from holdfast.job_writer import JobWriter
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.statement import Statement
from holdfast.producer.ambient_connection import AmbientConnection, no_ambient_connection
from holdfast.schedules.schedules import Schedules
from holdfast.settings import (
    read_pool,
    read_readers,
    read_retention,
    read_schema,
    read_secrets,
    read_slots,
    read_switch,
    read_target,
)
from holdfast.stop_signals import stopping_a_program
from holdfast.storage.audit import PYTHON
from holdfast.storage.migrations import packaged
from holdfast.telemetry.events import Reader
from holdfast.worker.job_kind import ErrorHook, Hook, Hooks, declared_redactions
from holdfast.worker.middleware import Middleware, read_middleware
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
        middleware: Sequence[Middleware] = (),
        keep_logs: KeepLogs = "never",
        require_conn: bool = False,
        secrets: Sequence[str] | None = None,
    ) -> None:
        super().__init__(
            Hooks(on_start, on_success, on_failure, on_dead, on_lease_lost, on_expired, on_cancelled),
            lambda kind: Job(self, self._job_writer, kind),
            read_secrets(secrets),
            read_keep_logs(keep_logs),
            read_middleware(middleware),
        )
        if dsn is not None:
            read_target(dsn)
        self.schema = read_schema(schema)
        self.slots = read_slots(slots)
        heard_by, kept = read_readers(readers), read_retention(retention)
        is_conn_required = read_switch("require_conn", require_conn)
        self._connections = AppConnections(dsn, self.schema, read_pool(pool))
        self._job_writer = JobWriter(self, self._connections, is_conn_required=is_conn_required)
        self._group_writer = GroupWriter(self, self._connections, self._job_writer)
        self._worker_maker = WorkerMaker(self, self._connections, self.slots, heard_by, kept)
        self._event_writer = EventWriter(self.schema, self._connections, self._job_writer.connection_for)
        self.flows = Flows(
            self.schema,
            self._connections,
            lambda: [kind.name for kind in self.declared_kinds.values() if kind.style in ("flow", "machine")],
            lambda: self._worker_maker.keeping,
            self._redactions,
        )
        self.groups = Groups(self.schema, self._connections, lambda: self._worker_maker.keeping)
        self.limits = Limits(self.schema, self._connections)
        self.queues = Queues(self.schema, self._connections, self._named_queues)
        self.failures = Failures(
            self.schema, self._connections, lambda: self._worker_maker.keeping, self._redactions
        )
        self.jobs = Jobs(
            self.schema,
            self._connections,
            lambda: self._worker_maker.keeping,
            self._redactions,
            self._named_queues,
        )
        self.operations = Operations(
            self.schema, self._connections, lambda: self._worker_maker.keeping, self._named_queues
        )
        self.kinds = Kinds(self.schema, self._connections)
        self.audit = Audit(self.schema, self._connections)
        self.workers = Workers(self.schema, self._connections)
        self._pruning = Pruning(self.schema, self._connections)
        self.schedules = Schedules(
            self.schema, self._connections, self._job_writer.check_own, self._redactions
        )

    def _named_queues(self) -> set[str]:
        """The queues that this app's own code names."""
        return {*self.slots, *(kind.policy.queue for kind in self.declared_kinds.values())}

    def _redactions(self) -> Redactions:
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

    @overload
    async def group(
        self,
        calls: Iterable[Call[Any]],
        *,
        then: Call[R],
        on_failure: Call[Any] | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        conn: object = None,
    ) -> Group[R]: ...
    @overload
    async def group(
        self,
        calls: Iterable[Call[Any]],
        *,
        then: None = None,
        on_failure: Call[Any] | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        conn: object = None,
    ) -> Group[None]: ...
    async def group(
        self,
        calls: Iterable[Call[Any]],
        *,
        then: Call[Any] | None = None,
        on_failure: Call[Any] | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        conn: object = None,
    ) -> Group[Any]:
        """Write any number of jobs, of any kinds, whose ends are awaited together; all or none, on `conn`'s
        transaction if one is given. When the last of them has ended, in whatever way, `then` is enqueued,
        once; if any did not succeed, `on_failure` in its place, if that is given. `ctx.group` tells it the
        group and its counts.
        """
        return await self._group_writer.write(calls, AskedGroup(then, on_failure, name, tags), conn)

    @overload
    def group_sync(
        self,
        calls: Iterable[Call[Any]],
        *,
        then: Call[R],
        on_failure: Call[Any] | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        conn: object = None,
    ) -> Group[R]: ...
    @overload
    def group_sync(
        self,
        calls: Iterable[Call[Any]],
        *,
        then: None = None,
        on_failure: Call[Any] | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        conn: object = None,
    ) -> Group[None]: ...
    def group_sync(
        self,
        calls: Iterable[Call[Any]],
        *,
        then: Call[Any] | None = None,
        on_failure: Call[Any] | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
        conn: object = None,
    ) -> Group[Any]:
        """The same, blocking."""
        return self._group_writer.write_sync(calls, AskedGroup(then, on_failure, name, tags), conn)

    def group_handle(self, group: int) -> Group[Any]:
        """A handle on any group, by its id. The result of what follows is plain JSON."""
        check_ids([group])
        return Group(self, None, group)

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

    async def overview(self, *, patience: Length = "5m", conn: object = None) -> Overview:
        """What needs attention, and how much goes on. A job that has been due for longer than `patience`
        needs attention.
        """
        return await self._connections.look(read_overview(self.schema, patience=patience), conn)

    def overview_sync(self, *, patience: Length = "5m", conn: object = None) -> Overview:
        """The same, blocking."""
        return self._connections.look_sync(read_overview(self.schema, patience=patience), conn)

    async def stats(
        self,
        since: Length = "1h",
        *,
        until: datetime | None = None,
        resolution: Length | None = None,
        queue: str | None = None,
        kind: str | None = None,
        conn: object = None,
    ) -> Stats:
        """Figures of the time `since` before `until` (by default now), in pieces of `resolution`: minutes for
        up to 24 hours, hours for up to 90 days. `queue`, `kind`: only of these.
        """
        asked = read_stats(
            self.schema, since=since, until=until, resolution=resolution, queue=queue, kind=kind
        )
        return await self._connections.look(asked, conn)

    def stats_sync(
        self,
        since: Length = "1h",
        *,
        until: datetime | None = None,
        resolution: Length | None = None,
        queue: str | None = None,
        kind: str | None = None,
        conn: object = None,
    ) -> Stats:
        """The same, blocking."""
        asked = read_stats(
            self.schema, since=since, until=until, resolution=resolution, queue=queue, kind=kind
        )
        return self._connections.look_sync(asked, conn)

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

    async def prunable(
        self, *, older_than: Length | None = None, states: Collection[FinalState] | None = None
    ) -> Prunable:
        """How many jobs `prune` would delete now, by how they ended; 10,000 are counted at most."""
        return await self._pruning.count(Chosen.read(older_than, states))

    def prunable_sync(
        self, *, older_than: Length | None = None, states: Collection[FinalState] | None = None
    ) -> Prunable:
        """The same, blocking."""
        return self._pruning.count_sync(Chosen.read(older_than, states))

    async def prune(
        self,
        *,
        older_than: Length | None = None,
        states: Collection[FinalState] | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Delete at once the ended jobs whose retention is over, as the leader does in its time; only those
        that ended more than `older_than` ago, or in one of these `states`. Returns how many. It commits
        every few hundred jobs, and tells `on_progress` how many are gone; what is deleted stays so if you
        stop it.
        """
        return await self._pruning.run(Chosen.read(older_than, states), by, reason, on_progress)

    def prune_sync(
        self,
        *,
        older_than: Length | None = None,
        states: Collection[FinalState] | None = None,
        by: str = PYTHON,
        reason: str | None = None,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> int:
        """The same, blocking."""
        return self._pruning.run_sync(Chosen.read(older_than, states), by, reason, on_progress)

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

    async def doctor(self) -> DoctorReport:
        """Examine all that jobs depend on: the way to the server, its settings and long transactions, rights,
        tables, workers and leader. Changes nothing. Each finding says what to do.
        """
        import asyncio

        return await asyncio.to_thread(self.doctor_sync)

    def doctor_sync(self) -> DoctorReport:
        """The same, blocking."""
        return examine(self._connections.dsn(), self.schema, packaged())

    async def fsck(
        self,
        *,
        fix: bool = False,
        by: str = PYTHON,
        reason: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> FsckReport:
        """Check that every job is in exactly one place and that nothing is left over, while workers run; with
        `fix`, mend what is damaged, with an entry in the audit. It reads every table, a bounded part at a
        time.
        """
        return await take(self._connections, self._fsck(fix, by, reason, on_progress))

    def fsck_sync(
        self,
        *,
        fix: bool = False,
        by: str = PYTHON,
        reason: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> FsckReport:
        """The same, blocking."""
        return take_blocking(self._connections, self._fsck(fix, by, reason, on_progress))

    def _fsck(
        self, fix: object, by: str, reason: str | None, on_progress: OnProgress | None
    ) -> Steps[FsckReport]:
        return fsck_steps(
            self.schema,
            fix=read_switch("fix", fix),
            retention=self._worker_maker.keeping,
            by=by,
            reason=reason,
            on_progress=on_progress,
        )

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


def connections_of(app: App) -> AppConnections:
    """For the metrics of `holdfast worker`, which ask operators' questions."""
    return app._connections  # noqa: SLF001  # a part of the App that users do not see


def worker_maker_of(app: App) -> WorkerMaker:
    """For `holdfast worker`, which makes a worker and runs it in its own way."""
    return app._worker_maker  # noqa: SLF001  # a part of the App that users do not see
