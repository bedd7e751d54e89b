"""The entry point of Holdfast: an App knows its kinds of jobs, enqueues jobs, and runs workers."""

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeGuard, TypeVar

from holdfast.app_connections import AppConnections
from holdfast.background_worker import worker_running
from holdfast.dead_letter_operators import DeadLetterOperators
from holdfast.decorators import Decorators
from holdfast.domain.duration import Length, duration
from holdfast.domain.job import check_ids
from holdfast.errors import InvalidInput, WrongConnection
from holdfast.flows.callers import callers_for
from holdfast.flows.event_payload import payload_text
from holdfast.flows.events import Event
from holdfast.flows.operators import FlowOperators
from holdfast.handle import Handle
from holdfast.job import Call
from holdfast.leader_chores import LEADER_CHORES
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.conversation import Conversation, hold, hold_blocking
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.statement import Statement
from holdfast.producer.ambient_connection import (
    OWN_TRANSACTION,
    AmbientConnection,
    given_or_ambient,
    no_ambient_connection,
)
from holdfast.producer.bulk_enqueuer import BulkEnqueuer, conflict_choices, only_choice
from holdfast.queue_operators import QueueOperators
from holdfast.schedules.api import Schedules
from holdfast.schedules.declarer import Declarer
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
from holdfast.storage.flows import emit
from holdfast.storage.jobs import Enqueued, enqueue_many
from holdfast.storage.operators import cancel
from holdfast.storage.runs import Retention
from holdfast.telemetry.events import Reader
from holdfast.worker.cancel_log import log_cancelled
from holdfast.worker.committing_block import is_inside_committing_block
from holdfast.worker.job_kind import ErrorHook, Hook, Hooks, Kind
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outside_transaction import warn_of_own_transaction
from holdfast.worker.queue_choice import QueuesAsked, read_queues, remarks
from holdfast.worker.worker import Worker
from holdfast.worker.worker_extension import WorkerExtension
from holdfast.worker_program import run_as_program

_log = logging.getLogger("holdfast.worker")

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
            Hooks(on_start, on_success, on_failure, on_dead, on_lease_lost, on_expired, on_cancelled)
        )
        if dsn is not None:
            read_target(dsn)
        self.schema = read_schema(schema)
        self.readers = read_readers(readers)
        self.slots = read_slots(slots)
        self._retention = read_retention(retention)
        self._is_conn_required = read_switch("require_conn", require_conn)
        self._connections = AppConnections(dsn, self.schema, read_pool(pool))
        self._left_behind: dict[int, float] = {}
        self._events: dict[str, Event[Any]] = {}
        self.flows = FlowOperators(
            self.schema,
            self._connections,
            lambda: [kind.name for kind in self.declared_kinds.values() if kind.style in ("flow", "machine")],
            lambda: self._keeping,
        )
        self.queues = QueueOperators(
            self.schema,
            self._connections,
            lambda: {*self.slots, *(kind.policy.queue for kind in self.declared_kinds.values())},
        )
        self.dead = DeadLetterOperators(self.schema, self._connections)
        self.schedules = Schedules(self.schema, self._connections, self._check_scheduled)

    async def enqueue_many(self, calls: Iterable[Call[Any]], *, conn: object = None) -> list[Handle[Any]]:
        """Write any number of jobs, of any kinds, all or none; on `conn`'s transaction if one is given.

        Given a generator, calls are made while Postgres writes the calls before them.
        """
        return await self._write(self._own(calls), self._connection_for(conn))

    def enqueue_many_sync(self, calls: Iterable[Call[Any]], *, conn: object = None) -> list[Handle[Any]]:
        """The same, blocking."""
        return self._write_sync(list(self._own(calls)), self._connection_for(conn))

    async def _write(self, calls: Iterable[Call[Any]], conn: object) -> list[Handle[Any]]:
        if conn is None:
            return await BulkEnqueuer(self.schema, calls, self._handles).write(self._connections.opened)
        batch = list(calls)
        rows = await hold(self._enqueueing(batch), lambda statement: run_on(conn, statement))
        return self._handles([call.kind for call in batch], rows)

    def _write_sync(self, batch: Sequence[Call[Any]], conn: object) -> list[Handle[Any]]:
        if conn is None:
            jobs, on_conflict = [call.job for call in batch], only_choice(conflict_choices(batch))
            rows = self._connections.opened_blocking().put_many(jobs, on_conflict)
        else:
            rows = hold_blocking(self._enqueueing(batch), lambda statement: run_on_blocking(conn, statement))
        return self._handles([call.kind for call in batch], rows)

    def _enqueueing(self, batch: Sequence[Call[Any]]) -> Conversation[list[Enqueued]]:
        """In the caller's transaction, whose commit wakes the workers."""
        on_conflict = only_choice(conflict_choices(batch))
        return enqueue_many(self.schema, (call.job for call in batch), on_conflict=on_conflict, notify=True)

    def using(self, *, conn: object) -> AmbientConnection:
        """Every verb of this app that is called in the block without a `conn` uses this one: jobs, events and
        operators' verbs. `async with app.using(conn=session):` in a coroutine, `with …` in a plain function.

        Valid in the task or thread that entered it; those that it starts are refused. Blocks nest.
        """
        return AmbientConnection(self._connections, conn)

    def _connection_for(self, conn: object) -> object:
        """For jobs and events, which are lost or left over if they miss their caller's transaction."""
        conn = given_or_ambient(self._connections, conn)
        if conn is not None:
            return None if conn is OWN_TRANSACTION else conn
        if self._is_conn_required:
            raise WrongConnection(
                "this app has require_conn=True: pass conn=…, write inside of app.using(conn=…), or pass "
                "conn=OWN_TRANSACTION to commit it by itself"
            )
        if is_inside_committing_block():
            warn_of_own_transaction(self.declared_kinds)
        return None

    def _own(self, calls: object) -> Iterator[Call[Any]]:
        """The calls, checked: a call of another app may belong to another database."""
        if not isinstance(calls, Iterable):
            raise InvalidInput(f"calls is {calls!r}: give [job.call(…), …], or a generator of calls")
        for call in calls:
            if not self._is_own(call):
                raise InvalidInput(f"{call!r} is no call of this app's jobs: give [job.call(…), …]")
            yield call

    def _check_scheduled(self, call: object) -> None:
        if not self._is_own(call):
            raise InvalidInput(
                f"{call!r} is no call of this app's jobs: give job.call(…), with its arguments"
            )

    def _is_own(self, call: object) -> TypeGuard[Call[Any]]:
        return type(call) is Call and self.declared_kinds.get(call.kind.name) is call.kind

    async def _enqueue(self, call: Call[R], conn: object) -> Handle[R]:
        conn = self._connection_for(conn)
        if conn is not None or call.on_conflict != "existing":
            return (await self._write([call], conn))[0]
        producer = await self._connections.opened()
        job, is_new = await producer.enqueuer.put(call.job)
        return Handle(self, call.kind.signature, job, is_new)

    def _enqueue_sync(self, call: Call[R], conn: object) -> Handle[R]:
        conn = self._connection_for(conn)
        if conn is not None or call.on_conflict != "existing":
            return self._write_sync([call], conn)[0]
        job, is_new = self._connections.opened_blocking().put(call.job)
        return Handle(self, call.kind.signature, job, is_new)

    def _handles(self, kinds: Sequence[Kind], rows: Sequence[Enqueued]) -> list[Handle[Any]]:
        return [
            Handle(self, kind.signature, job, is_new) for kind, (job, is_new) in zip(kinds, rows, strict=True)
        ]

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

    @property
    def _keeping(self) -> Retention:
        """How long jobs that this app cancels are kept: as given to it, or to a worker that it has run."""
        return Retention() if self._retention is None else self._retention

    def _cancelling(self, jobs: Sequence[int], reason: str) -> Conversation[dict[int, str]]:
        return cancel(
            self.schema,
            jobs,
            retention=self._keeping,
            reason=reason,
            on_ended=partial(log_cancelled, reason),
        )

    async def cancel(
        self, jobs: Sequence[int], *, reason: str = "cancelled on request", conn: object = None
    ) -> dict[int, str]:
        """End waiting jobs, ask running ones to end. For each: cancelled, requested, final, unknown, busy."""
        conn = self._connections.chosen(conn)
        asked = self._cancelling(jobs, reason)
        if conn is not None:
            return await hold(asked, lambda statement: run_on(conn, statement))
        return await hold(asked, (await self._connections.opened()).database.run)

    def cancel_sync(
        self, jobs: Sequence[int], *, reason: str = "cancelled on request", conn: object = None
    ) -> dict[int, str]:
        """The same, blocking."""
        conn = self._connections.chosen(conn)
        asked = self._cancelling(jobs, reason)
        if conn is not None:
            return hold_blocking(asked, lambda statement: run_on_blocking(conn, statement))
        return hold_blocking(asked, self._connections.opened_blocking().database.run)

    def event(self, name: str, type: type[T]) -> Event[T]:  # noqa: A002  # what it is
        """An event whose payloads are of one type: `await event.emit(key, value)` refuses another one, and
        `await flow.wait(event, key)` gives it. The same event for the same name and type; another type for a
        known name is refused. Opens nothing.
        """
        event = Event[T](name, type, self._send, self._send_sync)
        known = self._events.setdefault(name, event)
        if known.typed.hint != type:
            raise InvalidInput(
                f'event "{name}" is of type {known.typed.type_name} already, and cannot be of type '
                f"{event.typed.type_name} too: give one of them another name"
            )
        return known

    async def emit(
        self, event: str, payload: object = None, *, conn: object = None, keep: Length = "30 days"
    ) -> None:
        """Tell flows that something has happened. Flows that wait for this event go on; if none does, the
        first flow that waits for it within `keep`. On `conn`'s transaction if one is given.
        """
        await self._send(event, payload_text(event, payload), conn, keep)

    async def _send(self, event: str, text: str | None, conn: object, keep: Length) -> None:
        statement = self._emitting(event, text, keep)
        conn = self._connection_for(conn)
        if conn is not None:
            await run_on(conn, statement)
        else:
            await (await self._connections.opened()).database.run(statement)

    def emit_sync(
        self, event: str, payload: object = None, *, conn: object = None, keep: Length = "30 days"
    ) -> None:
        """The same, blocking."""
        self._send_sync(event, payload_text(event, payload), conn, keep)

    def _send_sync(self, event: str, text: str | None, conn: object, keep: Length) -> None:
        statement = self._emitting(event, text, keep)
        conn = self._connection_for(conn)
        if conn is not None:
            run_on_blocking(conn, statement)
        else:
            self._connections.opened_blocking().database.run(statement)

    def _emitting(self, event: str, text: str | None, keep: Length) -> Statement[int]:
        return emit(self.schema, [(event, text)], notify=True, keep=duration(keep, name="keep"))

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
        _check_said_once(queues, slots, grace, options)
        with no_ambient_connection():
            worker = await self._worker(queues, grace, options, slots=slots)
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
        _check_said_once(queues, slots, grace, options)
        async with worker_running(await self._worker(queues, grace, options, slots=slots)) as worker:
            yield worker

    async def _worker(
        self,
        queues: QueuesAsked | None,
        grace: Length | None,
        options: WorkerOptions | None,
        *,
        slots: Mapping[str, int] | None = None,
    ) -> Worker:
        import asyncio

        from holdfast import __version__
        from holdfast.telemetry.events import Emitter
        from holdfast.telemetry.log import log_event

        self.check()
        if not self.declared_kinds:
            raise InvalidInput(
                "this app has no jobs: decorate a function with @app.job, and import its module"
            )
        chosen = self._worker_options(queues, slots, grace) if options is None else options
        if self._retention is None:
            self._retention = chosen.retention
        for remark in remarks(chosen.queues, self.own_queues, self.slots, slots or {}):
            _log.warning("%s", remark)
        return Worker(
            await asyncio.to_thread(self._connections.dsn),
            self.declared_kinds,
            chosen,
            schema=self.schema,
            emitter=Emitter(log_event, *self.readers),
            version=__version__,
            extension=self._extension(chosen.retention),
            left_behind=self._left_behind,
            availability=self._connections.availability,
            nearby=self._connections.nearby,
        )

    def _extension(self, retention: Retention) -> WorkerExtension:
        """What schedules and flows need of a worker: every leader plans and wakes all of them, each process
        declares its own schedules.
        """
        declared = tuple(self.declared.values())
        return WorkerExtension(
            chores=LEADER_CHORES,
            services=lambda database, handlers, emitter: (
                [Declarer(database, handlers, self.schema, emitter, declared)] if declared else []
            ),
            callers=lambda *from_worker: callers_for(self.schema, retention, *from_worker),
        )

    @property
    def own_queues(self) -> list[str]:
        """The queues that this app's jobs are declared with."""
        return list(dict.fromkeys(kind.policy.queue for kind in self.declared_kinds.values()))

    def _worker_options(
        self, queues: QueuesAsked | None, slots: Mapping[str, int] | None, grace: Length | None
    ) -> WorkerOptions:
        return WorkerOptions(
            queues=read_queues(self.own_queues if queues is None else queues, self.slots | read_slots(slots)),
            grace="30s" if grace is None else grace,
            retention=self._keeping,
        )

    async def migrate(self) -> int:
        """Create Holdfast's tables, or bring them up to this release; the schema's version. Safe to be called
        by many processes at once. A private server is migrated by the process that starts it.
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


def _check_said_once(queues: object, slots: object, grace: object, options: object) -> None:
    if options is not None and not isinstance(options, WorkerOptions):
        raise InvalidInput(f"options is {options!r}: give WorkerOptions(…), or leave it out")
    if options is not None and any(given is not None for given in (queues, slots, grace)):
        raise InvalidInput(
            "queues, slots and grace are part of WorkerOptions, as queues={…} and grace=…: give them there, "
            "or give no options"
        )
