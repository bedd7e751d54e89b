"""What one event loop, or all blocking callers of a process, enqueue with: connections for jobs, and one more
for the NOTIFY that wakes workers. Opening checks that the schema fits this release.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from holdfast.domain.job import NewJob
from holdfast.domain.uniqueness import OnConflict
from holdfast.postgres.availability import Availability
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.conversation import hold, hold_blocking
from holdfast.postgres.database import Database
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.producer.blocking_notifier import BlockingNotifier
from holdfast.producer.enqueuer import Enqueuer
from holdfast.producer.nearby_workers import NearbyWorkers
from holdfast.producer.notifier import Notifier
from holdfast.producer.wake_ups import BLOCKING_HINTS, HINTS, woken_by
from holdfast.storage.fit import check_fit
from holdfast.storage.jobs import Enqueued, enqueue, enqueue_many


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a producer's connections lead to, and which workers of this process it tells of jobs."""

    dsn: Dsn
    schema: Schema
    options: PoolOptions
    availability: Availability
    nearby: NearbyWorkers


@dataclass(frozen=True, slots=True)
class Producer:
    """Of one event loop."""

    database: Database
    hints: Database
    notifier: Notifier
    enqueuer: Enqueuer

    @classmethod
    async def open(cls, reach: Reach) -> "Producer":
        async with AsyncExitStack() as unless_it_works:
            database = Database(reach.dsn, reach.options, purpose="app", availability=reach.availability)
            await unless_it_works.enter_async_context(database)
            await hold(check_fit(reach.schema), database.run)
            hints = Database(reach.dsn, HINTS, purpose="notifier", availability=reach.availability)
            await unless_it_works.enter_async_context(hints)
            unless_it_works.pop_all()
        notifier = Notifier(hints, reach.schema, reach.nearby)
        return cls(database, hints, notifier, Enqueuer(database, reach.schema, notifier))

    async def close(self) -> None:
        """What was put is written first, and its workers are woken."""
        await self.enqueuer.finish()
        await self.notifier.finish()
        await self.hints.close()
        await self.database.close()


@dataclass(frozen=True, slots=True)
class BlockingProducer:
    """Of all callers without an event loop."""

    schema: Schema
    database: BlockingDatabase
    hints: BlockingDatabase
    notifier: BlockingNotifier

    @classmethod
    def open(cls, reach: Reach) -> "BlockingProducer":
        database = BlockingDatabase(reach.dsn, reach.options, purpose="app", availability=reach.availability)
        try:
            hold_blocking(check_fit(reach.schema), database.run)
        except BaseException:
            database.close()
            raise
        hints = BlockingDatabase(
            reach.dsn, BLOCKING_HINTS, purpose="notifier", availability=reach.availability
        )
        return cls(reach.schema, database, hints, BlockingNotifier(hints, reach.schema, reach.nearby))

    def close(self) -> None:
        self.notifier.finish()
        self.hints.close()
        self.database.close()

    def put(self, job: NewJob) -> Enqueued:
        """The job is committed when this returns."""
        is_notified = self.notifier.may_carry()
        [row] = self.database.run(enqueue(self.schema, (job,), notify=is_notified))
        self.notifier.tell(woken_by((job,)), is_notified=is_notified)
        return row

    def put_many(self, jobs: list[NewJob], on_conflict: OnConflict) -> list[Enqueued]:
        """All jobs, in one commit."""
        with self.database.transaction() as transaction:
            rows = hold_blocking(
                enqueue_many(self.schema, jobs, on_conflict=on_conflict, notify=False), transaction.run
            )
        self.notifier.tell(woken_by(jobs))
        return rows
