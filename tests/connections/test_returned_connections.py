"""Every connection comes back to the pool, and no pool keeps a program from ending."""

import asyncio
import random
import threading

import pytest
from psycopg.pq import TransactionStatus

from connections.both_databases import BACKEND
from connections.conftest import Observer
from holdfast.errors import ConnectionLost
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.listening_connection import ListeningConnection
from holdfast.postgres.options import PoolOptions


async def test_users_cancelled_at_any_time_leave_every_connection_to_the_others(dsn: str) -> None:
    """One that is handed over at that very moment would belong to no caller, and be missing for ever."""
    chance = random.Random(1)
    options = PoolOptions(pool_min_conns=1, pool_max_conns=2, pool_timeout="3s")

    async def use(database: Database) -> None:
        while True:
            await database.run(BACKEND)

    async with Database(dsn, options) as database:
        users = [asyncio.create_task(use(database)) for _ in range(8)]
        for _ in range(6_000):
            for _ in range(chance.randrange(1, 6)):
                await asyncio.sleep(0)
            number = chance.randrange(len(users))
            users[number].cancel()
            users[number] = asyncio.create_task(use(database))
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        async with database.connection(), database.connection():
            pass


async def test_what_was_left_open_on_a_connection_is_ended_without_a_word(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a caller that was cancelled while its transaction began."""
    async with Database(dsn, PoolOptions(pool_max_conns=1)) as database:
        async with database.connection() as connection:
            await connection.execute("begin")
            await connection.execute("create table left_open ()")
        async with database.connection() as connection:
            assert connection.info.transaction_status == TransactionStatus.IDLE
            found = await connection.execute("select to_regclass('left_open')")
            assert await found.fetchone() == (None,)
    assert caplog.messages == []


def test_a_program_that_never_closes_its_pool_ends(dsn: str) -> None:
    """Also while the pool grows: before Python 3.12 a task that connects may forget a cancellation."""

    async def use_and_leave() -> None:
        database = Database(dsn, PoolOptions(pool_min_conns=1, pool_max_conns=8))
        await database.open()
        await asyncio.gather(*(database.run(BACKEND) for _ in range(20)))

    for _ in range(6):
        program = threading.Thread(target=asyncio.run, args=(use_and_leave(),), daemon=True)
        program.start()
        program.join(20)
        assert not program.is_alive()


def test_looking_after_idle_connections_disturbs_no_user_of_them(dsn: str) -> None:
    """Both ask the same sockets whether they have ended, from several threads."""
    is_over = threading.Event()
    failures: list[Exception] = []

    def use() -> None:
        try:
            while not is_over.is_set():
                database.run(BACKEND)
        except Exception as error:  # noqa: BLE001  # seen by the test
            failures.append(error)

    options = PoolOptions(pool_min_conns=4, pool_max_conns=4)
    with BlockingDatabase(dsn, options) as database:
        users = [threading.Thread(target=use) for _ in range(4)]
        for user in users:
            user.start()
        try:
            for _ in range(300):
                database._open().pool.sweep()  # what the keeper does now and then
        finally:
            is_over.set()
            for user in users:
                user.join(20)
    assert failures == []


async def test_a_lost_connection_gives_up_its_socket_at_once(dsn: str, observer: Observer) -> None:
    """The number of that socket may belong to another a moment later."""
    async with Database(dsn) as database:
        connection = await database.dedicated(purpose="listener")
        stirred = asyncio.Event()
        number = connection.fileno()
        loop = asyncio.get_running_loop()
        line = ListeningConnection(
            connection, lambda *_: None, stirred=stirred, patience=database.settings.pool_timeout
        )
        assert await observer.terminate() >= 1
        with pytest.raises(ConnectionLost):
            await line.until(lambda: False)
        assert not loop.remove_reader(number)
        line.close()
