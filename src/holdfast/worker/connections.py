"""A worker's connections, apart by what must not wait for what."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from holdfast.postgres.availability import Availability
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.postgres.thread_transactions import ThreadTransactions
from holdfast.producer.nearby_workers import NearbyWorkers
from holdfast.producer.notifier import Notifier
from holdfast.producer.wake_ups import HINTS
from holdfast.storage.session import SETTINGS

# Beside these and those of its handlers, a worker has three: to keep its lease, to notify and to listen.
_HOT: Final = 2
_CALM: Final = 3


@dataclass(frozen=True, slots=True)
class Connections:
    """`hot` claims, settles and keeps the leadership: each of the three sends one statement at a time. `calm`
    is for the leader's chores and for flows, of which none asks for a second connection while it has one.
    `leases` keeps the lease from its thread. Handlers' own transactions stay open for as long as a handler
    likes, so they have a pool of their own, as large as the connection string says, and without our planner
    settings; plain functions use the same one from their threads.
    """

    hot: Database
    calm: Database
    leases: BlockingDatabase
    handlers: Database
    handlers_in_threads: ThreadTransactions
    hints: Database
    notifier: Notifier
    availability: Availability

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, dsn: Dsn, schema: Schema, availability: Availability, nearby: NearbyWorkers
    ) -> "AsyncIterator[Connections]":
        def database(purpose: str, options: PoolOptions, session: dict[str, str] | None = None) -> Database:
            return Database(dsn, options, purpose=purpose, session=session, availability=availability)

        hot = database("worker", PoolOptions(pool_min_conns=_HOT, pool_max_conns=_HOT), SETTINGS)
        calm = database("chores", PoolOptions(pool_min_conns=1, pool_max_conns=_CALM), SETTINGS)
        handlers = database("handlers", PoolOptions(pool_min_conns=0))
        hints = database("notifier", HINTS)
        prompt = PoolOptions(pool_min_conns=1, pool_max_conns=1, reply_timeout="5s", pool_timeout="5s")
        leases = BlockingDatabase(dsn, prompt, purpose="leases", availability=availability)
        notifier = Notifier(hints, schema, nearby)
        async with AsyncExitStack() as stack:
            for each in (hot, calm, handlers, hints):
                await stack.enter_async_context(each)
            stack.callback(leases.close)
            stack.push_async_callback(notifier.finish)
            yield cls(
                hot, calm, leases, handlers, ThreadTransactions(handlers), hints, notifier, availability
            )
