"""A transaction around code that we do not know: two round trips of its own, nothing committed in part."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from connections.conftest import Observer
from holdfast.errors import ConnectionLost, DataRefused, InvalidInput, StatementFailed, TransactionEnded
from holdfast.postgres.database import Database
from holdfast.postgres.lent_connection import LentConnection
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.statement import Statement
from holdfast.postgres.thread_transactions import ThreadTransactions
from support.pgbouncer import pgbouncer
from support.proxy import Proxy

ONE = PoolOptions(pool_min_conns=1, pool_max_conns=1)
LAST = "insert into note select %(text)s::text where 1 / %(divisor)s::int = 1"


def last(text: str = "last", divisor: int = 1) -> Statement[Any]:
    """Fails for a divisor of zero."""
    return Statement("last", LAST, {"text": text, "divisor": divisor}, int)


@pytest.fixture(autouse=True)
def note(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table note (text text unique deferrable initially deferred)")


@asynccontextmanager
async def one(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, ONE) as database:
        yield database


async def written(observer: Observer) -> Any:
    return await observer.value("select coalesce(array_agg(text order by text), '{}') from note")


async def committed(database: Database, text: str, ending: Statement[Any]) -> LentConnection:
    transaction = database.whole_transaction()
    connection = await transaction.begin()
    await connection.execute("insert into note values (%s)", [text])
    await transaction.commit(ending)
    return connection


async def test_it_takes_one_round_trip_to_begin_and_one_to_commit(dsn: str, observer: Observer) -> None:
    async with Proxy.before(dsn) as proxy, one(proxy.dsn(dsn)) as database:
        for number in range(8):  # prepared the first time; psycopg would prepare what it sees for the fifth
            transaction = database.whole_transaction()
            before = proxy.since.requests_passed
            await transaction.begin()
            assert proxy.since.requests_passed == before + 1
            await transaction.commit(last(str(number)))
            assert proxy.since.requests_passed == before + 2
    assert len(await written(observer)) == 8


async def test_the_last_statement_is_planned_once_for_a_connection(dsn: str) -> None:
    async with one(dsn) as database:
        for number in range(9):
            await committed(database, f"own {number}", last(f"it's {number} \\ %s"))
        async with database.connection() as connection:
            found = await connection.execute(
                "select generic_plans + custom_plans, generic_plans > 0 from pg_prepared_statements"
                " where name like 'holdfast%'"
            )
            assert await found.fetchall() == [(9, True)]


async def test_what_the_last_statement_refuses_is_not_committed(dsn: str, observer: Observer) -> None:
    async with one(dsn) as database:
        for _ in range(3):
            with pytest.raises(DataRefused, match="division by zero"):
                await committed(database, "own", last(divisor=0))
        assert await written(observer) == []
        await committed(database, "own", last())
        with pytest.raises(DataRefused, match="division by zero"):
            await committed(database, "another", last("more", divisor=0))
        await committed(database, "third", last("more"))
    assert await written(observer) == ["last", "more", "own", "third"]


async def test_what_only_the_commit_refuses_is_not_committed(dsn: str, observer: Observer) -> None:
    async with one(dsn) as database:
        with pytest.raises(DataRefused, match="duplicate key"):
            await committed(database, "twice", last("twice"))
        assert await written(observer) == []
        await committed(database, "once", last())


async def drop_a_table(connection: LentConnection) -> None:
    await connection.execute("create table short_lived ()")
    await connection.execute("drop table short_lived")


async def roll_back_a_part(connection: LentConnection) -> None:
    async with connection.transaction(force_rollback=True):
        await connection.execute("insert into note values ('a part')")


async def prepare_very_much(connection: LentConnection) -> None:
    for number in range(120):
        await connection.execute(f"select {number}".encode(), prepare=True)


@pytest.mark.parametrize("act", [drop_a_table, roll_back_a_part, prepare_very_much])
async def test_what_makes_psycopg_drop_prepared_statements_fails_no_commit(
    dsn: str, observer: Observer, act: Callable[[LentConnection], Any]
) -> None:
    async with one(dsn) as database:
        for number in range(7):
            transaction = database.whole_transaction()
            connection = await transaction.begin()
            for _ in range(6):
                await connection.execute("select 1 from note")
            if number % 2:
                await act(connection)
            await transaction.commit(last(str(number)))
        transaction = database.whole_transaction()
        await transaction.begin()
        await transaction.roll_back(ValueError())
        await committed(database, "own", last("after a rollback"))
    assert len(await written(observer)) == 9


async def test_a_session_that_dropped_its_statements_unseen_fails_one_commit_and_is_replaced(
    dsn: str, observer: Observer
) -> None:
    async with one(dsn) as database:
        first = await committed(database, "first", last("1"))
        transaction = database.whole_transaction()
        connection = await transaction.begin()
        connection.pgconn.exec_(b"deallocate all")
        with pytest.raises(StatementFailed, match="does not exist"):
            await transaction.commit(last("2"))
        assert (await committed(database, "third", last("3"))).pgconn is not first.pgconn
    assert await written(observer) == ["1", "3", "first", "third"]


@pytest.mark.parametrize("how", ["commit", "commit; begin", "rollback", "rollback; begin"])
@pytest.mark.parametrize("is_raising", [True, False])
async def test_a_transaction_that_was_ended_inside_is_told(
    dsn: str, observer: Observer, how: str, is_raising: bool
) -> None:
    async with one(dsn) as database:
        transaction = database.whole_transaction()
        connection = await transaction.begin()
        await connection.execute("insert into note values ('own')")
        await connection.execute(how.encode())
        with pytest.raises(TransactionEnded):
            await (transaction.roll_back(ValueError()) if is_raising else transaction.commit(last()))
        await committed(database, "next", last("after"))
    expected = {"after", "next"} | ({"own"} if how.startswith("commit") else set())
    assert set(await written(observer)) == expected


async def test_a_statement_that_failed_inside_lets_nothing_be_committed(dsn: str, observer: Observer) -> None:
    async with one(dsn) as database:
        transaction = database.whole_transaction()
        connection = await transaction.begin()
        await connection.execute("insert into note values ('own')")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.execute("select 1 / 0")
        with pytest.raises(StatementFailed, match="a statement of this transaction failed"):
            await transaction.commit(last())
    assert await written(observer) == []


async def test_a_part_that_is_still_open_at_the_end_lets_nothing_be_committed(
    dsn: str, observer: Observer
) -> None:
    async with one(dsn) as database:
        transaction = database.whole_transaction()
        connection = await transaction.begin()
        await connection.transaction().__aenter__()
        await connection.execute("insert into note values ('a part')")
        with pytest.raises(InvalidInput, match="still open at the end of the block"):
            await transaction.commit(last())
        assert connection.closed, "its task would end it in the middle of the next block"
        await committed(database, "next", last())
    assert await written(observer) == ["last", "next"]


async def test_factories_and_the_refusal_to_commit_end_with_the_block(dsn: str) -> None:
    async with one(dsn) as database:
        transaction = database.whole_transaction()
        connection = await transaction.begin()
        connection.row_factory = dict_row  # type: ignore[assignment]  # as handlers do
        for end in (connection.commit, connection.rollback):
            with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
                await end()
        await transaction.commit(last())
        async with database.connection() as again:
            assert again.pgconn is connection.pgconn
            assert await (await again.execute("select 1")).fetchone() == (1,)
            await again.commit()


async def execute(connection: LentConnection) -> Any:
    return await connection.execute("insert into note values ('late')")


async def execute_by_an_old_cursor(connection: LentConnection) -> Any:
    return await connection.cursor().execute("insert into note values ('late')")


async def copy(connection: LentConnection) -> Any:
    async with connection.cursor().copy("copy note from stdin") as rows:
        await rows.write_row(["late"])


async def begin_a_part(connection: LentConnection) -> Any:
    async with connection.transaction():
        pytest.fail("a part has begun")


async def commit(connection: LentConnection) -> Any:
    await connection.commit()


@pytest.mark.parametrize("late", [execute, execute_by_an_old_cursor, copy, begin_a_part, commit])
async def test_what_outlives_its_block_cannot_use_the_connection_that_another_block_has(
    dsn: str, observer: Observer, late: Callable[[LentConnection], Any]
) -> None:
    async with one(dsn) as database:
        old = await committed(database, "own", last("first"))
        transaction = database.whole_transaction()
        connection = await transaction.begin()
        assert connection.pgconn is old.pgconn
        with pytest.raises(psycopg.OperationalError, match="connection was for has ended"):
            await late(old)
        assert old.closed
        old.cancel()
        await old.cancel_safe()
        await old.close()
        await transaction.commit(last("second"))
    assert await written(observer) == ["first", "own", "second"]


async def test_what_waits_for_its_turn_when_its_block_ends_is_refused(dsn: str, observer: Observer) -> None:
    async with one(dsn) as database:
        transaction = database.whole_transaction()
        connection = await transaction.begin()
        async with connection.lock:  # as a statement of another task has it
            ending = asyncio.create_task(transaction.commit(last()))
            await asyncio.sleep(0)
            late = asyncio.create_task(connection.execute("insert into note values ('late')"))
            await asyncio.sleep(0)
        await ending
        with pytest.raises(psycopg.OperationalError, match="has ended"):
            await late
    assert await written(observer) == ["last"]


async def test_notices_are_told_to_the_block_that_asked_for_them_and_not_to_the_next(dsn: str) -> None:
    told: list[str | None] = []
    async with one(dsn) as database:
        for number in range(2):
            transaction = database.whole_transaction()
            connection = await transaction.begin()
            if number == 0:
                connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
            await connection.execute(f"do $$ begin raise notice 'number {number}'; end $$")
            await transaction.commit(last(str(number)))
    assert told == ["number 0"]


async def test_a_lost_reply_to_the_commit_leaves_it_unknown(dsn: str, observer: Observer) -> None:
    async with Proxy.before(dsn) as proxy, one(proxy.dsn(dsn)) as database:
        transaction = database.whole_transaction()
        connection = await transaction.begin()
        await connection.execute("insert into note values ('own')")
        proxy.swallow_replies()
        ending = asyncio.create_task(transaction.commit(last()))
        await proxy.reply_swallowed()
        proxy.pass_through()
        proxy.reset()
        with pytest.raises(ConnectionLost, match=r"commit.*unknown"):
            await ending
    assert await written(observer) == ["last", "own"]


async def test_a_thread_ends_the_transaction_of_its_connection(dsn: str, observer: Observer) -> None:
    def work(transactions: ThreadTransactions, number: int) -> None:
        transaction = transactions.transaction()
        connection = transaction.begin()
        connection.execute("insert into note values (%s)", [f"own {number}"])
        with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
            connection.commit()
        transaction.commit(last(str(number)))

    async with one(dsn) as database:
        transactions = ThreadTransactions(database)
        for number in range(3):
            await asyncio.to_thread(work, transactions, number)
    assert len(await written(observer)) == 6


@pytest.mark.machine
@pytest.mark.root
async def test_behind_a_transaction_pooler_nothing_is_prepared(dsn: str, observer: Observer) -> None:
    with pgbouncer(dsn, "transaction") as front:
        async with Database(front, PoolOptions(pool_max_conns=3)) as database:
            await asyncio.gather(
                *(committed(database, f"own {n}", last(f"it's {n}")) for n in range(20)),
            )
            async with database.connection() as connection:
                found = await connection.execute("select count(*) from pg_prepared_statements")
                assert await found.fetchone() == (0,)
        assert len(await written(observer)) == 40
