"""Many jobs in one commit: the next chunk of calls is made while Postgres writes the chunk before."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import chain, islice
from time import monotonic
from typing import Generic, Protocol, TypeVar

from holdfast.domain.job import NewJob
from holdfast.domain.uniqueness import OnConflict
from holdfast.errors import InvalidInput
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.producer.producer import Producer
from holdfast.producer.wake_ups import woken_by
from holdfast.storage.jobs import CHUNK, Enqueued, enqueue_chunks, enqueue_many

K = TypeVar("K")
K_co = TypeVar("K_co", covariant=True)
H = TypeVar("H")

_SLOW = 0.2
"""Seconds for a chunk of calls. A generator that takes longer reads from elsewhere: no transaction stays open
for that.
"""


class Enqueueable(Protocol[K_co]):
    """A new job, what its handle is made of, and what to do if another job holds its unique key."""

    @property
    def kind(self) -> K_co: ...
    @property
    def job(self) -> NewJob: ...
    @property
    def on_conflict(self) -> OnConflict: ...


def conflict_choices(calls: Iterable[Enqueueable[object]]) -> set[OnConflict]:
    """What the calls with a unique key ask for if the key is taken, but for debounced ones."""
    return {
        call.on_conflict for call in calls if call.job.unique_key is not None and call.job.debounce is None
    }


def only_choice(choices: set[OnConflict]) -> OnConflict:
    if len(choices) > 1:
        raise InvalidInput(
            "all jobs of one enqueue_many must have the same on_conflict, these have "
            f"{', '.join(sorted(choices))}"
        )
    return next(iter(choices), "existing")


class _NotStreamedError(Exception):
    """These calls come slowly, or one of them has a unique key, which would be held while the others are
    made: all of them have to be known before any is written.
    """


class BulkEnqueuer(Generic[K, H]):
    """Writes calls as they come, all or none. `handles` makes the answers, from kinds and rows in one order.

    The calls are not kept: the garbage collector would look at each of them, again and again.
    """

    def __init__(
        self,
        schema: Schema,
        calls: Iterable[Enqueueable[K]],
        handles: Callable[[Sequence[K], Sequence[Enqueued]], list[H]],
    ) -> None:
        self._schema = schema
        self._calls = iter(calls)
        self._handles = handles
        self._jobs: list[NewJob] = []
        self._kinds: list[K] = []
        self._choices: set[OnConflict] = set()
        self._names: set[str] = set()
        self._written: list[H] = []

    async def write(self, opened: Callable[[], Awaitable[Producer]]) -> list[H]:
        """Nothing is opened before the first calls are known to be sound."""
        statements = self._statements()
        try:
            first = list(islice(statements, 2))
            producer = await opened()
            if len(first) > 1:
                await self._stream(producer.database, chain(first, statements))
            else:
                await self._write_alone(producer.database, first)
        except _NotStreamedError:
            self._take(list(self._calls))
            conversation = enqueue_many(
                self._schema, self._jobs, on_conflict=only_choice(self._choices), notify=False
            )
            producer = await opened()
            async with producer.database.transaction() as transaction:
                rows = await hold(conversation, transaction.run)
            self._written = self._handles(self._kinds, rows)
        producer.notifier.tell(self._names)
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

    def _take(self, calls: list[Enqueueable[K]]) -> list[NewJob]:
        jobs = [call.job for call in calls]
        self._jobs += jobs
        self._kinds += [call.kind for call in calls]
        self._choices |= conflict_choices(calls)
        self._names |= woken_by(jobs)
        return jobs

    def _keep(self, rows: list[Enqueued]) -> None:
        done = len(self._written)
        self._written += self._handles(self._kinds[done : done + len(rows)], rows)
