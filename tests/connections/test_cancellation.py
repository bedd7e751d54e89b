"""A task that is cancelled while it waits for a connection ends, whatever else happens at that moment."""

import asyncio

import pytest

from connections.both_databases import asking
from connections.conftest import Observer
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions
from support.proxy import Proxy
from support.waiting import until


@pytest.mark.parametrize("turns", range(10))
async def test_a_cancellation_that_comes_together_with_a_connection_is_not_lost(dsn: str, turns: int) -> None:
    async with Database(dsn, PoolOptions(pool_max_conns=1)) as database:
        async with database.connection():
            waiting = asyncio.create_task(database.run(asking("select 1 from pg_sleep(0.1)")))
            await until(lambda: database._opened.core.waiting, "the task waits for the connection")
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting], timeout=15)
        assert waiting.cancelled()
        async with asyncio.timeout(10):
            assert await database.run(asking("select 2")) == [2]


async def test_a_cancellation_is_not_lost_when_the_connection_is(dsn: str, observer: Observer) -> None:
    """Psycopg asks the server to cancel the query; that its connection is cut meanwhile is another error."""
    long = asking("select 1 from pg_sleep(30)", is_repeatable=True)
    async with (
        Proxy.before(dsn) as proxy,
        Database(proxy.dsn(dsn), PoolOptions(pool_max_conns=1)) as database,
    ):
        waiting = asyncio.create_task(database.run(long))
        await observer.until("select exists (select from pg_stat_activity where wait_event = 'PgSleep')")
        proxy.black_hole()
        waiting.cancel()
        await proxy.request_swallowed()  # to cancel the query
        proxy.pass_through()
        proxy.reset()
        await asyncio.wait([waiting], timeout=15)
        assert waiting.cancelled()
