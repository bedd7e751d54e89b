"""A task that is cancelled while it waits for a connection ends, whatever happens in the same moment."""

import asyncio

import pytest

from connections.colours import asking
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions


@pytest.mark.parametrize("turns", range(10))
async def test_a_cancellation_that_comes_together_with_a_connection_is_not_lost(dsn: str, turns: int) -> None:
    async with Database(dsn, PoolOptions(pool_max_conns=1)) as database:
        async with database.connection():
            waiting = asyncio.create_task(database.run(asking("select 1 from pg_sleep(0.1)")))
            while not database._opened._pool.get_stats()["requests_waiting"]:  # noqa: ASYNC110  # psycopg has no event for it
                await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(10):
            assert await database.run(asking("select 2")) == [2]
