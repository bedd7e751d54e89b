"""Each pool option, as the server sees it."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from connections.both_databases import BACKEND, Colour, asking, opened
from connections.conftest import Observer
from holdfast.errors import ServerUnable
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions

pytestmark = pytest.mark.requirement("S2.2")

OURS = "from pg_stat_activity where datname = current_database() and application_name = 'holdfast/pool'"


async def test_no_more_connections_than_the_maximum(colour: Colour, dsn: str) -> None:
    async with opened(colour, f"{dsn} pool_max_conns=2") as database:
        assert len(await database.spread(6)) == 2


async def test_the_minimum_is_there_before_the_first_caller(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    async with opened(colour, f"{dsn} pool_min_conns=3 pool_max_conns=5"):
        await observer.until(f"select count(*) = 3 {OURS}")


async def test_a_minimum_of_none_keeps_none(colour: Colour, dsn: str, observer: Observer) -> None:
    async with opened(colour, f"{dsn} pool_min_conns=0 pool_max_conn_idle_time=200ms") as database:
        await database.run(BACKEND)
        await observer.until(f"select count(*) = 0 {OURS}")
        assert await database.run_one(BACKEND)


async def test_idle_connections_above_the_minimum_are_closed(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    async with opened(colour, f"{dsn} pool_min_conns=1 pool_max_conn_idle_time=200ms") as database:
        await database.spread(4)
        await observer.until(f"select count(*) = 1 {OURS}")


async def test_a_connection_is_replaced_when_its_life_is_over(colour: Colour, dsn: str) -> None:
    options = PoolOptions(pool_max_conn_lifetime="300ms", pool_max_conn_lifetime_jitter="0", pool_max_conns=1)
    async with opened(colour, dsn, options) as database:
        first = await database.run_one(BACKEND)
        async with asyncio.timeout(20):
            while await database.run_one(BACKEND) == first:
                pass


async def test_the_health_check_replaces_old_and_ended_connections_that_are_idle(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    options = PoolOptions(
        pool_health_check_period="100ms", pool_min_conns=2, pool_max_conn_lifetime_jitter="0"
    )
    async with opened(colour, dsn, options):
        assert await observer.terminate() == 2
        await observer.until(f"select count(*) = 2 {OURS}")
    short = (
        f"{dsn} pool_max_conn_lifetime=300ms pool_health_check_period=100ms pool_max_conn_lifetime_jitter=0"
    )
    async with opened(colour, short) as database:
        first = await database.run_one(BACKEND)
        await observer.until(f"select not exists (select {OURS} and pid = %s)", first)
        await observer.until(f"select count(*) = 1 {OURS}")


async def test_jitter_spreads_the_ends_of_lives(dsn: str) -> None:
    async with AsyncExitStack() as stack:
        options = PoolOptions(
            pool_min_conns=8, pool_max_conn_lifetime="1h", pool_max_conn_lifetime_jitter="1h"
        )
        database = await stack.enter_async_context(Database(dsn, options))
        lives = [connection.life for connection in database._opened.core.idle]
    lengths = [life.expires_at - life.opened_at for life in lives]
    assert all(3600 <= length <= 7200 for length in lengths)
    assert len(set(lengths)) == 8


@pytest.mark.requirement("S2.4")
async def test_a_transaction_that_sits_idle_is_ended_by_the_server(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    show = asking("select current_setting('idle_in_transaction_session_timeout')")
    async with opened(colour, dsn) as database:
        assert await database.run_one(show) == "30s"
    async with opened(colour, f"{dsn} idle_in_transaction_timeout=0") as database:
        assert await database.run_one(show) == "0"
    async with Database(dsn, PoolOptions(idle_in_transaction_timeout="100ms")) as quick:
        with pytest.raises(ServerUnable, match="idle-in-transaction timeout") as raised:
            await _dawdle(quick, observer)
        assert raised.value.sqlstate == "25P03"
        assert await quick.run_one(BACKEND)


async def _dawdle(database: Database, observer: Observer) -> None:
    async with database.transaction() as transaction:
        backend = await transaction.run_one(BACKEND)
        await observer.until("select not exists (select from pg_stat_activity where pid = %s)", backend)


@pytest.mark.requirement("S2.4")
async def test_a_dedicated_connection_may_sit_in_a_transaction_for_ever(dsn: str) -> None:
    async with Database(dsn) as database, await database.dedicated(purpose="listener") as listener:
        cursor = await listener.execute(
            "select current_setting('idle_in_transaction_session_timeout'),"
            " current_setting('application_name')"
        )
        assert await cursor.fetchone() == ("0", "holdfast/listener")


@pytest.mark.requirement("S2.5")
async def test_a_commit_waits_for_the_disk_unless_told_not_to(colour: Colour, dsn: str) -> None:
    show = asking("select current_setting('synchronous_commit')")
    async with opened(colour, dsn) as database:
        assert await database.run_one(show) == "on"
        assert await database.run_together([show]) == ["on"]
    async with opened(colour, dsn, PoolOptions(synchronous_commit=False)) as database:
        assert await database.run_one(show) == "off"
        assert await database.run_together([show]) == ["off"]


async def test_a_session_has_the_name_that_the_user_gave_it(colour: Colour, dsn: str) -> None:
    show = asking("select current_setting('application_name')")
    async with opened(colour, dsn) as database:
        assert await database.run_one(show) == "holdfast/pool"
    async with opened(colour, f"{dsn} application_name=mine") as database:
        assert await database.run_one(show) == "mine"
