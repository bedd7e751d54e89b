"""A worker's connections, apart by what must not wait for what."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from holdfast.postgres.availability import Availability
from holdfast.postgres.blocking import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.storage.session import SETTINGS
from holdfast.worker.notifier import HINTS, Notifier


@dataclass(frozen=True, slots=True)
class Connections:
    """`hot` claims and settles, `calm` leads, `leases` keeps the lease from its thread. Handlers' own
    transactions stay open for as long as a handler likes, so they have pools of their own, as large as the
    connection string says, and without our planner settings.
    """

    hot: Database
    calm: Database
    leases: BlockingDatabase
    handlers: Database
    handlers_blocking: BlockingDatabase
    notifier: Notifier

    @classmethod
    @asynccontextmanager
    async def opened(cls, dsn: Dsn, schema: Schema) -> "AsyncIterator[Connections]":
        together = Availability.of(dsn)
        two, few, none = (
            PoolOptions(pool_min_conns=2, pool_max_conns=2),
            PoolOptions(pool_min_conns=1, pool_max_conns=10),
            PoolOptions(pool_min_conns=0),
        )
        prompt = PoolOptions(pool_min_conns=1, pool_max_conns=1, reply_timeout="5s", pool_timeout="5s")
        hot = Database(dsn, two, purpose="worker", session=SETTINGS, availability=together)
        calm = Database(dsn, few, purpose="chores", session=SETTINGS, availability=together)
        leases = BlockingDatabase(dsn, prompt, purpose="leases", availability=together)
        handlers = Database(dsn, none, purpose="handlers", availability=together)
        handlers_blocking = BlockingDatabase(dsn, none, purpose="handlers", availability=together)
        hints = Database(dsn, HINTS, purpose="notifier", availability=together)
        notifier = Notifier(hints, schema)
        async with AsyncExitStack() as stack:
            for database in (hot, calm, handlers, hints):
                await stack.enter_async_context(database)
            for blocking in (leases, handlers_blocking):
                stack.callback(blocking.close)
            stack.push_async_callback(notifier.finish)
            yield cls(hot, calm, leases, handlers, handlers_blocking, notifier)
