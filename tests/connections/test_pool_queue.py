"""Callers are served in turn when there are fewer connections than callers."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from connections.both_databases import BACKEND, Colour, asking, opened
from connections.conftest import Observer
from holdfast.errors import ConnectionFailed, DatabaseClosed, PoolTimeout
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions
from support.proxy import Proxy
from support.waiting import until

OURS = "from pg_stat_activity where datname = current_database() and application_name = 'holdfast/pool'"


async def test_callers_are_served_in_the_order_in_which_they_came(dsn: str) -> None:
    served: list[int] = []

    async def use(number: int) -> None:
        async with database.connection():
            served.append(number)
            await asyncio.sleep(0)

    async with Database(dsn, PoolOptions(pool_max_conns=1)) as database:
        async with database.connection():
            users = [asyncio.create_task(use(number)) for number in range(20)]
            await until(lambda: database._opened.core.waiting == len(users))
        await asyncio.gather(*users)
    assert served == list(range(20))


def test_threads_are_served_in_the_order_in_which_they_came(dsn: str) -> None:
    served: list[int] = []

    def use(number: int) -> None:
        with database.connection():
            served.append(number)

    with (
        BlockingDatabase(dsn, PoolOptions(pool_max_conns=1)) as database,
        ThreadPoolExecutor(8) as threads,
        database.connection(),
    ):
        core = database._open().pool.core
        for number in range(8):
            threads.submit(use, number)
            deadline = monotonic() + 20
            while core.waiting <= number:
                assert monotonic() < deadline
    assert served == list(range(8))


async def test_a_caller_whose_time_is_over_leaves_the_queue_to_the_others(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    options = PoolOptions(pool_max_conns=1, pool_timeout="300ms")
    async with opened(colour, dsn, options) as database:
        sleeping = asyncio.create_task(database.run(asking("select 1 from pg_sleep(1)")))
        await observer.until("select exists (select from pg_stat_activity where wait_event = 'PgSleep')")
        with pytest.raises(PoolTimeout):
            await database.run(BACKEND)
        await sleeping
        assert await database.run_one(BACKEND)
        it = database.it
        core = it._opened.core if isinstance(it, Database) else it._open().pool.core
        assert (core.size, core.waiting, len(core.idle)) == (1, 0, 1)


async def test_what_a_caller_left_in_the_middle_is_closed_and_replaced(dsn: str, observer: Observer) -> None:
    async with Database(dsn, PoolOptions(pool_max_conns=1)) as database:
        async with database.connection() as connection:
            backend = connection.info.backend_pid
            await connection.execute("begin")
        assert await database.run_one(BACKEND) != backend
        await observer.until(f"select count(*) = 1 {OURS}")


async def test_a_server_that_is_away_is_tried_by_one_connection_at_a_time(colour: Colour, dsn: str) -> None:
    async with Proxy.before(dsn) as proxy:
        options = PoolOptions(pool_timeout="2s", pool_max_conns=8)
        async with opened(colour, proxy.dsn(dsn), options) as database:
            await database.spread(2)
            proxy.black_hole()
            proxy.reset()
            await proxy.until(lambda: proxy.open_connections == 0)
            tries = [asyncio.create_task(database.run(BACKEND)) for _ in range(8)]
            ended = await asyncio.gather(*tries, return_exceptions=True)
            assert {type(each) for each in ended} == {ConnectionFailed}
            assert proxy.open_connections == 1
            proxy.pass_through()
            proxy.reset()
            assert len(await database.spread(3)) > 1


async def test_a_pool_that_is_closed_while_it_connects_leaves_nothing_behind(
    colour: Colour, dsn: str
) -> None:
    async with Proxy.before(dsn) as proxy:
        async with opened(colour, proxy.dsn(dsn), PoolOptions(pool_max_conns=2)) as database:
            await database.run(BACKEND)
            proxy.black_hole()
            proxy.reset()
            await proxy.until(lambda: proxy.open_connections == 0)
            waiting = asyncio.create_task(database.run(BACKEND))
            await proxy.until(lambda: proxy.since.connections >= 1)
        with pytest.raises(DatabaseClosed):
            await waiting
        proxy.reset()  # ends the try of a thread, which nothing else can interrupt
        await until(lambda: _left_by_pools() == [])


def _left_by_pools() -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks()]
    names += [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("holdfast pool")]


FORGETFUL = """
import asyncio, gc, sys
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.statement import Statement

async def use() -> None:
    database = Database(sys.argv[1], PoolOptions(pool_max_conns=4))
    await database.open()
    one = Statement("one", "select 1", {}, int)
    await asyncio.gather(*(database.run(one) for _ in range(8)))

asyncio.run(use())
gc.collect()
"""


def test_a_loop_that_ends_with_an_open_pool_says_nothing(dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORGETFUL, dsn],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
