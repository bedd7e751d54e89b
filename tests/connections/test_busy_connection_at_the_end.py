"""A connection of ours on which something is still under way when the block around it ends."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from connections.conftest import Observer
from holdfast.errors import InvalidInput, StatementFailed
from holdfast.postgres import whole_transaction
from holdfast.postgres.database import Database
from holdfast.postgres.lent_connection import LentConnection
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.statement import Statement
from holdfast.postgres.thread_transactions import BlockingFace, ThreadTransactions
from support.waiting import block_until, until

SHORT = PoolOptions(pool_min_conns=1, pool_max_conns=1, reply_timeout=timedelta(seconds=1))
MANY = "select repeat('x', 1000) from generate_series(1, 200000)"
LAST: Statement[Any] = Statement("last", "insert into note values (%(text)s::text)", {"text": "last"}, int)


@pytest.fixture(autouse=True)
def note(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table note (text text)")


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, SHORT) as database:
        yield database


async def written(observer: Observer) -> Any:
    return await observer.value("select coalesce(array_agg(text order by text), '{}') from note")


async def copy_to(connection: LentConnection) -> Any:
    copy = connection.cursor().copy(f"copy ({MANY}) to stdout")
    await (await copy.__aenter__()).read()
    return copy


async def copy_from(connection: LentConnection) -> Any:
    copy = connection.cursor().copy("copy note from stdin")
    await (await copy.__aenter__()).write_row(["copied"])
    return copy


async def stream(connection: LentConnection) -> Any:
    rows = connection.cursor().stream(MANY)
    await anext(aiter(rows))
    return rows


async def let_go(kept: Any) -> None:
    """Kept until here: what nobody holds any more Python closes."""
    if hasattr(kept, "aclose"):
        await kept.aclose()


OPENED = [copy_to, copy_from, stream]


@pytest.mark.parametrize("left_open", OPENED)
async def test_what_was_left_open_lets_nothing_be_committed_and_holds_nothing_up(
    database: Database, observer: Observer, left_open: Callable[[LentConnection], Any]
) -> None:
    transaction = database.whole_transaction()
    connection = await transaction.begin()
    await connection.execute("insert into note values ('own')")
    kept = await left_open(connection)
    with pytest.raises(InvalidInput, match="still under way on this connection at the end of the block"):
        async with asyncio.timeout(30):
            await transaction.commit(LAST)
    assert connection.closed
    assert await written(observer) == []
    await _commit_once(database)
    await let_go(kept)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
@pytest.mark.parametrize("left_open", OPENED)
async def test_what_was_left_open_holds_no_rollback_up(
    database: Database, left_open: Callable[[LentConnection], Any], error: type[BaseException]
) -> None:
    transaction = database.whole_transaction()
    connection = await transaction.begin()
    kept = await left_open(connection)
    async with asyncio.timeout(30):
        assert not await transaction.roll_back(error())
    await _commit_once(database)
    await let_go(kept)


async def test_a_server_side_cursor_that_was_left_open_ends_with_the_commit(
    database: Database, observer: Observer
) -> None:
    transaction = database.whole_transaction()
    connection = await transaction.begin()
    cursor = connection.cursor("rows")
    await cursor.execute(MANY)
    await cursor.fetchone()
    await transaction.commit(LAST)
    assert await written(observer) == ["last"]
    await cursor.close()


async def test_a_statement_of_another_task_is_waited_for(database: Database, observer: Observer) -> None:
    transaction = database.whole_transaction()
    connection = await transaction.begin()
    other = asyncio.create_task(connection.execute("insert into note select 'other' from pg_sleep(0.2)"))
    await until(lambda: connection.info.transaction_status.name == "ACTIVE", "it is sent")
    await transaction.commit(LAST)
    await other
    assert await written(observer) == ["last", "other"]


async def test_a_stream_that_is_still_held_ends_the_block_in_time_also_when_cancelled(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for its lock waits for ever."""
    transaction = database.whole_transaction()
    connection = await transaction.begin()
    held = connection.cursor().stream("select generate_series(1, 1000)")
    await anext(held)
    ending = asyncio.ensure_future(transaction.commit(LAST))
    done, _ = await asyncio.wait([ending], timeout=0.2)
    assert not done
    ending.cancel()
    async with asyncio.timeout(2):
        with pytest.raises(asyncio.CancelledError):
            await ending
    monkeypatch.setattr(whole_transaction, "_PATIENCE", 0.1)
    again = database.whole_transaction()
    held_too = (await again.begin()).cursor().stream("select generate_series(1, 1000)")
    await anext(held_too)
    async with asyncio.timeout(2):
        with pytest.raises(InvalidInput, match="still under way"):
            await again.commit(LAST)
    await _commit_once(database)


async def test_a_stream_that_was_broken_off_is_closed_by_python_and_holds_nothing_up(
    database: Database,
) -> None:
    transaction = database.whole_transaction()
    connection = await transaction.begin()
    async for _ in connection.cursor().stream("select generate_series(1, 3)"):
        break
    await transaction.commit(LAST)


async def _commit_once(database: Database) -> None:
    transaction = database.whole_transaction()
    await transaction.begin()
    await transaction.commit(LAST)


class OtherThread:
    """Runs a statement on a face again and again, as a handler's own thread may."""

    def __init__(self, face: BlockingFace, text: str) -> None:
        self._face = face
        self._text = text
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        block_until(lambda: face.info.transaction_status.name == "ACTIVE", "it has sent something")

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while True:
                self._face.execute(self._text.encode())
        except psycopg.Error as error:
            self.error = error


@pytest.mark.parametrize("is_raising", [True, False])
async def test_another_thread_finds_the_connection_of_an_ended_block_useless(
    database: Database, observer: Observer, is_raising: bool
) -> None:
    """With both on one socket the process would crash, or a statement would land in another block."""

    def work(number: int) -> None:
        transaction = transactions.transaction()
        face = transaction.begin()
        face.execute("insert into note values (%s)", [f"own {number}"])
        other = OtherThread(face, "select count(*) from note, pg_sleep(0.001)")
        if is_raising:
            transaction.roll_back(ValueError())
        else:
            transaction.commit(LAST)
        other.join()
        assert "the block that this connection was for has ended" in str(other.error)
        face.cancel()
        face.cancel_safe()
        face.close()

    transactions = ThreadTransactions(database)
    for number in range(10):
        await asyncio.to_thread(work, number)
    assert len(await written(observer)) == (0 if is_raising else 20)
    async with database.connection() as connection:
        assert not connection.closed


async def test_another_threads_statement_that_outlasts_the_bound_is_cut_off(
    database: Database, observer: Observer
) -> None:
    def work() -> None:
        transaction = transactions.transaction()
        face = transaction.begin()
        face.execute("insert into note values ('own')")
        other = OtherThread(face, "select pg_sleep(100)")
        with pytest.raises(StatementFailed):
            transaction.commit(LAST)
        other.join()

    transactions = ThreadTransactions(database)
    await asyncio.to_thread(work)
    assert await written(observer) == []
    await _commit_once(database)
