"""A pooler between Holdfast and Postgres is recognised, and its limits are kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from connections.both_databases import BACKEND, Colour, asking, opened
from connections.conftest import Observer
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.pooler_detection import PoolerMode, find_pooler
from support.pgbouncer import pgbouncer


async def test_a_direct_connection_is_recognised_and_says_nothing(
    colour: Colour, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(colour, dsn) as database:
        assert database.it.pooler is PoolerMode.DIRECT
    assert not caplog.records


@pytest.mark.machine
@pytest.mark.root
@pytest.mark.parametrize("round_robin", [False, True])
@pytest.mark.parametrize("pool_size", [1, 2, 4, 20])
async def test_transaction_mode_is_recognised_whatever_the_pool(
    dsn: str, pool_size: int, round_robin: bool
) -> None:
    with pgbouncer(dsn, "transaction", pool_size=pool_size, round_robin=round_robin) as front:
        assert await find_pooler(front) is PoolerMode.TRANSACTION_POOLER
        async with _traffic(front, pool_size):
            for _ in range(10):
                assert await find_pooler(front) is PoolerMode.TRANSACTION_POOLER


@pytest.mark.machine
@pytest.mark.root
async def test_session_mode_is_recognised(dsn: str) -> None:
    with pgbouncer(dsn, "session") as front:
        for _ in range(5):
            assert await find_pooler(front) is PoolerMode.SESSION_POOLER
        async with _traffic(front, 3):
            assert await find_pooler(front) is PoolerMode.SESSION_POOLER


@pytest.mark.machine
@pytest.mark.root
async def test_without_a_backend_for_a_second_client_the_safe_side_is_taken_in_time(dsn: str) -> None:
    with pgbouncer(dsn, "session", pool_size=1) as front:
        async with asyncio.timeout(20):
            assert await find_pooler(front) is PoolerMode.TRANSACTION_POOLER


@pytest.mark.machine
@pytest.mark.root
async def test_one_backend_serves_all_clients_and_none_hangs(colour: Colour, dsn: str) -> None:
    with pgbouncer(dsn, "transaction", pool_size=1) as front:
        async with opened(colour, front) as database, asyncio.TaskGroup() as tasks:
            waits = [tasks.create_task(database.run_one(BACKEND)) for _ in range(50)]
    assert len({wait.result() for wait in waits}) == 1


@pytest.mark.machine
@pytest.mark.root
async def test_statements_run_often_through_a_transaction_pooler_without_being_prepared(
    colour: Colour, dsn: str
) -> None:
    add = [asking("select %(n)s::int + 1", n=n) for n in range(60)]
    with pgbouncer(dsn, "transaction", pool_size=3) as front:
        async with opened(colour, front) as database:
            for statement in add:
                await asyncio.gather(*(database.run(statement) for _ in range(4)))
            assert await database.run_together(add) == list(range(1, 61))
            prepared = asking("select count(*) from pg_prepared_statements")
            assert await database.run(prepared) == [0]


async def test_a_direct_connection_prepares_what_it_runs_often(colour: Colour, dsn: str) -> None:
    async with opened(colour, dsn, PoolOptions(pool_max_conns=1)) as database:
        for n in range(10):
            await database.run(asking("select %(n)s::int", n=n))
        assert await database.run(asking("select count(*) from pg_prepared_statements")) == [1]


@pytest.mark.machine
@pytest.mark.root
async def test_nothing_is_set_on_a_session_that_others_inherit(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    show = asking("select current_setting('idle_in_transaction_session_timeout')")
    sync = asking("select current_setting('synchronous_commit')")
    with pgbouncer(dsn, "transaction", pool_size=1) as front:
        async with opened(colour, front, PoolOptions(synchronous_commit=False)) as database:
            assert await database.run_together([show, sync]) == ["30s", "off"]
            await _assert_untouched(front)
            assert await database.run_one(show) == "0"


async def _assert_untouched(front: str) -> None:
    async with await psycopg.AsyncConnection.connect(front, autocommit=True) as other:
        cursor = await other.execute(
            "select current_setting('idle_in_transaction_session_timeout'),"
            " current_setting('synchronous_commit')"
        )
        assert await cursor.fetchone() == ("0", "on")


@pytest.mark.machine
@pytest.mark.root
async def test_a_transaction_pooler_is_mentioned_once(
    colour: Colour, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pgbouncer(dsn, "transaction") as front:
        async with opened(colour, front) as database:
            await database.spread(3)
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.endswith("transaction-mode pooler: no prepared statements, no LISTEN; polling")


@pytest.mark.machine
@pytest.mark.root
async def test_both_databases_know_their_pooler(dsn: str) -> None:
    with pgbouncer(dsn, "session") as front:
        async with Database(front) as database:
            assert database.pooler is PoolerMode.SESSION_POOLER
        blocking = BlockingDatabase(front)
        assert await asyncio.to_thread(lambda: blocking.pooler) is PoolerMode.SESSION_POOLER
        await asyncio.to_thread(blocking.close)


@asynccontextmanager
async def _traffic(dsn: str, clients: int) -> AsyncIterator[None]:
    """Other clients of the pooler, which use all its backends now and then."""

    async def busy() -> None:
        async with await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, prepare_threshold=None
        ) as connection:
            while not done.is_set():
                await connection.execute("select pg_sleep(0.003)")
                started.release()

    done, started = asyncio.Event(), asyncio.Semaphore(0)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(clients):
            tasks.create_task(busy())
        for _ in range(clients):
            await started.acquire()
        try:
            yield
        finally:
            done.set()
