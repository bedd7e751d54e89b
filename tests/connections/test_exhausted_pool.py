"""Why a pool has no connection to lend: all are in use, the server refuses more, or it does not answer."""

import asyncio
from time import monotonic

import pytest

from connections.both_databases import BACKEND, Colour, asking, entered
from connections.conftest import Observer
from holdfast.errors import ConnectionFailed
from holdfast.postgres.availability import Availability
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.options import PoolOptions
from support.proxy import Proxy
from support.waiting import until

SLEEPING = "select exists (select from pg_stat_activity where wait_event = 'PgSleep')"
# As `alter database … allow_connections` does, which no session of the same database may say.
ALLOW, HERE = "update pg_database set datallowconn =", "where datname = current_database()"
ONE_OF_TWO = PoolOptions(pool_min_conns=1, pool_max_conns=2, pool_timeout="500ms")


async def test_a_server_that_refuses_more_connections_is_quoted_although_other_pools_have_theirs(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    together = Availability.of(Dsn.parse(dsn))
    kind = Database if colour == "async" else BlockingDatabase
    async with entered(kind(dsn, ONE_OF_TWO, availability=together)) as pool:
        holding = asyncio.create_task(pool.run(asking("select pg_sleep(2)")))
        await observer.until(SLEEPING)
        await observer.connection.execute(f"{ALLOW} false {HERE}".encode())
        try:
            waiting = asyncio.create_task(pool.run(BACKEND))
            await until(lambda: together.is_lost or waiting.done())
            together.works()  # another pool of this process has made a connection
            with pytest.raises(ConnectionFailed, match=r"within 0\.5 s: .*not currently accepting"):
                await waiting
        finally:
            await observer.connection.execute(f"{ALLOW} true {HERE}".encode())
        await holding


async def test_a_server_that_does_not_answer_is_not_taken_for_a_pool_that_is_too_small(
    colour: Colour, dsn: str, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    kind = Database if colour == "async" else BlockingDatabase
    async with Proxy.before(dsn) as proxy, entered(kind(proxy.dsn(dsn), ONE_OF_TWO)) as pool:
        holding = asyncio.create_task(pool.run(asking("select pg_sleep(2)")))
        await observer.until(SLEEPING)
        proxy.black_hole()
        with pytest.raises(ConnectionFailed, match=r"within 0\.5 s: the server has not answered"):
            await pool.run(BACKEND)
        proxy.pass_through()
        await asyncio.wait([holding])
        holding.exception()
    assert "lost, reconnecting: the server has not answered" in caplog.text


def test_a_caller_that_stops_waiting_says_what_did_not_answer_and_for_how_long() -> None:
    availability = Availability("db:5432/shop")
    assert str(availability.no_answer(10)) == "db:5432/shop did not answer within 10 s"
    availability.lost("the database system is starting up")
    told = availability.no_answer(6.98765)
    assert isinstance(told, ConnectionFailed), "which the pool has logged"
    assert "the database system is starting up" in str(told)


def test_an_attempt_that_began_before_the_last_success_is_no_new_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    availability = Availability("db:5432/shop")
    before = monotonic()
    availability.works()
    availability.lost("server_login_retry", tried_at=before)
    assert caplog.messages == []
    availability.lost("connection refused", tried_at=monotonic())
    assert [message.rpartition(": ")[2] for message in caplog.messages] == ["connection refused"]
