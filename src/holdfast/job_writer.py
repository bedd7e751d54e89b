"""Writes an app's jobs: chooses the connection, the statement, and makes the handles."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from msgspec import structs

from holdfast.app_connections import AppConnections
from holdfast.domain.job import NewJob
from holdfast.errors import InvalidInput, WrongConnection
from holdfast.handle import Handle
from holdfast.job import Call
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.conversation import Conversation, hold, hold_blocking
from holdfast.producer.ambient_connection import OWN_TRANSACTION, given_or_ambient
from holdfast.producer.bulk_enqueuer import BulkEnqueuer, conflict_choices, only_choice
from holdfast.storage.jobs import Enqueued, enqueue_many
from holdfast.worker.committing_block import is_inside_committing_block
from holdfast.worker.job_kind import Kind
from holdfast.worker.outgoing_jobs import OutgoingJobs
from holdfast.worker.outside_transaction import warn_of_own_transaction

if TYPE_CHECKING:
    from holdfast.app import App

R = TypeVar("R")


class JobWriter:
    """The enqueue verbs of one App. A job is written on the caller's connection if there is one, else on one
    of the app's.
    """

    def __init__(self, app: "App", connections: AppConnections, *, is_conn_required: bool) -> None:
        self._app = app
        self._schema = app.schema
        self._kinds = app.declared_kinds
        self._connections = connections
        self._is_conn_required = is_conn_required

    async def enqueue(self, call: Call[R], conn: object) -> Handle[R]:
        conn = self.connection_for(conn)
        if call.kind.middleware.enqueuing:
            with OutgoingJobs([(call.kind, call.job)]) as outgoing:
                handle = await self._put(structs.replace(call, job=outgoing.jobs[0]), conn)
                outgoing.written([(handle.id, handle.is_new)])
            return handle
        return await self._put(call, conn)

    async def _put(self, call: Call[R], conn: object) -> Handle[R]:
        if conn is not None or call.needs_conversation:
            return (await self._write([call], conn))[0]
        producer = await self._connections.opened()
        job, is_new = await producer.enqueuer.put(call.job)
        return Handle(self._app, call.kind.signature, job, is_new)

    def enqueue_sync(self, call: Call[R], conn: object) -> Handle[R]:
        conn = self.connection_for(conn)
        if call.kind.middleware.enqueuing:
            with OutgoingJobs([(call.kind, call.job)]) as outgoing:
                handle = self._put_sync(structs.replace(call, job=outgoing.jobs[0]), conn)
                outgoing.written([(handle.id, handle.is_new)])
            return handle
        return self._put_sync(call, conn)

    def _put_sync(self, call: Call[R], conn: object) -> Handle[R]:
        if conn is not None or call.needs_conversation:
            return self._write_sync([call], conn)[0]
        job, is_new = self._connections.opened_blocking().put(call.job)
        return Handle(self._app, call.kind.signature, job, is_new)

    async def enqueue_many(self, calls: Iterable[Call[Any]], conn: object) -> list[Handle[Any]]:
        conn = self.connection_for(conn)
        if not self.has_middleware:
            return await self._write(self.own(calls), conn)
        batch = list(self.own(calls))  # a middleware sees all of them before the first is written
        with OutgoingJobs((call.kind, call.job) for call in batch) as outgoing:
            handles = await self._write(_with_jobs(batch, outgoing.jobs), conn)
            outgoing.written((handle.id, handle.is_new) for handle in handles)
        return handles

    def enqueue_many_sync(self, calls: Iterable[Call[Any]], conn: object) -> list[Handle[Any]]:
        batch, conn = list(self.own(calls)), self.connection_for(conn)
        if not self.has_middleware:
            return self._write_sync(batch, conn)
        with OutgoingJobs((call.kind, call.job) for call in batch) as outgoing:
            handles = self._write_sync(_with_jobs(batch, outgoing.jobs), conn)
            outgoing.written((handle.id, handle.is_new) for handle in handles)
        return handles

    @property
    def has_middleware(self) -> bool:
        return any(kind.middleware.enqueuing for kind in self._kinds.values())

    def connection_for(self, conn: object) -> object:
        """The caller's connection, or None for one of the app's. For jobs and events, which are lost or left
        over if they miss their caller's transaction.
        """
        conn = given_or_ambient(self._connections, conn)
        if conn is not None:
            return None if conn is OWN_TRANSACTION else conn
        if self._is_conn_required:
            raise WrongConnection(
                "this app has require_conn=True: pass conn=…, write inside of app.using(conn=…), or pass "
                "conn=OWN_TRANSACTION to commit it by itself"
            )
        if is_inside_committing_block():
            warn_of_own_transaction(self._kinds)
        return None

    def check_own(self, call: object) -> None:
        """Refuse, for a schedule, what is not a call of one of this app's jobs."""
        if not self._is_own(call):
            raise InvalidInput(
                f"{call!r} is not a call of this app's jobs: give job.call(…), with its arguments"
            )

    def own(self, calls: object) -> Iterator[Call[Any]]:
        """The calls, checked: a call of another app may belong to another database."""
        if not isinstance(calls, Iterable):
            raise InvalidInput(f"calls is {calls!r}: give [job.call(…), …], or a generator of calls")
        for call in calls:
            if not self._is_own(call):
                raise InvalidInput(f"{call!r} is not a call of this app's jobs: give [job.call(…), …]")
            yield call

    def _is_own(self, call: object) -> TypeGuard[Call[Any]]:
        return type(call) is Call and self._kinds.get(call.kind.name) is call.kind

    async def _write(self, calls: Iterable[Call[Any]], conn: object) -> list[Handle[Any]]:
        if conn is None:
            return await BulkEnqueuer(self._schema, calls, self._handles).write(self._connections.opened)
        batch = list(calls)
        rows = await hold(self._statements(batch), lambda statement: run_on(conn, statement))
        return self._handles([call.kind for call in batch], rows)

    def _write_sync(self, batch: Sequence[Call[Any]], conn: object) -> list[Handle[Any]]:
        if conn is None:
            jobs, on_conflict = [call.job for call in batch], only_choice(conflict_choices(batch))
            rows = self._connections.opened_blocking().put_many(jobs, on_conflict)
        else:
            rows = hold_blocking(self._statements(batch), lambda statement: run_on_blocking(conn, statement))
        return self._handles([call.kind for call in batch], rows)

    def _statements(self, batch: Sequence[Call[Any]]) -> Conversation[list[Enqueued]]:
        """For the caller's transaction, whose commit wakes the workers."""
        on_conflict = only_choice(conflict_choices(batch))
        return enqueue_many(self._schema, (call.job for call in batch), on_conflict=on_conflict, notify=True)

    def _handles(self, kinds: Sequence[Kind], rows: Sequence[Enqueued]) -> list[Handle[Any]]:
        return [
            Handle(self._app, kind.signature, job, is_new)
            for kind, (job, is_new) in zip(kinds, rows, strict=True)
        ]


def _with_jobs(calls: Sequence[Call[Any]], jobs: Sequence[NewJob]) -> list[Call[Any]]:
    return [structs.replace(call, job=job) for call, job in zip(calls, jobs, strict=True)]
