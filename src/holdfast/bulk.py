"""Many jobs in one commit: the next chunk of calls is made while Postgres writes the one before."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import chain, islice
from time import monotonic
from typing import Any

from holdfast.app_connections import AppConnections
from holdfast.domain.job import NewJob
from holdfast.errors import InvalidInput
from holdfast.handle import Handle
from holdfast.job import Call
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.producer.notifier import wishes
from holdfast.storage.jobs import CHUNK, Enqueued, OnConflict, enqueue_chunks, enqueue_many
from holdfast.worker.job_kind import Kind

_SLOW = 0.2
"""Seconds for a chunk of calls. Who takes longer reads them from somewhere: no transaction waits for that."""


def ways_of(calls: Iterable[Call[Any]]) -> set[OnConflict]:
    """What is to be done about keys that are taken."""
    return {call.on_conflict for call in calls if call.job.unique_key is not None}


def one_way(ways: set[OnConflict]) -> OnConflict:
    if len(ways) > 1:
        raise InvalidInput(f"one call has one on_conflict, these have {', '.join(sorted(ways))}")
    return next(iter(ways), "existing")


class _NotStreamedError(Exception):
    """These calls come slowly, or one of them asks for a key, which would be held while the others are made:
    all have to be known before any of them is written.
    """


class Bulk:
    """Calls that come one by one, and are written as they come, all or none. They are not kept: the garbage
    collector would look at each of them, again and again.
    """

    def __init__(
        self,
        schema: Schema,
        calls: Iterable[Call[Any]],
        handles: Callable[[Sequence[Kind], Sequence[Enqueued]], list[Handle[Any]]],
    ) -> None:
        self._schema = schema
        self._calls = iter(calls)
        self._handles = handles
        self._jobs: list[NewJob] = []
        self._kinds: list[Kind] = []
        self._ways: set[OnConflict] = set()
        self._names: set[str] = set()
        self._written: list[Handle[Any]] = []

    async def write(self, connections: AppConnections) -> list[Handle[Any]]:
        """Nothing is opened before the first of them are known to be sound."""
        statements = self._statements()
        try:
            first = list(islice(statements, 2))
            here = await connections.opened()
            if len(first) > 1:
                await self._stream(here.database, chain(first, statements))
            else:
                await self._write_alone(here.database, first)
        except _NotStreamedError:
            self._take(list(self._calls))
            conversation = enqueue_many(
                self._schema, self._jobs, on_conflict=one_way(self._ways), notify=False
            )
            here = await connections.opened()
            async with here.database.transaction() as transaction:
                rows = await hold(conversation, transaction.run)
            self._written = self._handles(self._kinds, rows)
        here.notifier.tell(self._names)
        return self._written

    async def _write_alone(self, database: Database, statements: list[Statement[Enqueued]]) -> None:
        """One statement is a transaction of its own."""
        for statement in statements:
            self._keep(await database.run(statement))

    async def _stream(self, database: Database, statements: Iterable[Statement[Enqueued]]) -> None:
        async with (
            database.transaction() as transaction,
            aclosing(transaction.run_each(statements)) as answers,
        ):
            async for rows in answers:
                self._keep(rows)

    def _statements(self) -> Iterator[Statement[Enqueued]]:
        while jobs := self._next():
            yield from enqueue_chunks(self._schema, jobs, notify=False)

    def _next(self) -> list[NewJob]:
        began = monotonic()
        jobs = self._take(list(islice(self._calls, CHUNK)))
        if monotonic() - began > _SLOW or any(job.unique_key is not None for job in jobs):
            raise _NotStreamedError
        return jobs

    def _take(self, calls: list[Call[Any]]) -> list[NewJob]:
        jobs = [call.job for call in calls]
        self._jobs += jobs
        self._kinds += [call.kind for call in calls]
        self._ways |= ways_of(calls)
        self._names |= wishes(jobs)
        return jobs

    def _keep(self, rows: list[Enqueued]) -> None:
        done = len(self._written)
        self._written += self._handles(self._kinds[done : done + len(rows)], rows)
