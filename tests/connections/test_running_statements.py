"""How a Database runs statements, alone and when other transactions are in the way."""

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from connections.both_databases import BACKEND, Colour, Either, asking, opened
from connections.conftest import Observer
from holdfast.errors import (
    Conflict,
    ConnectionFailed,
    DatabaseClosed,
    InvalidConnectionString,
    PoolTimeout,
    StatementFailed,
)
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.statement import Statement
from support.waiting import until

SLEEPING = (
    "select exists (select from pg_stat_activity"
    " where query like 'select pg_sleep%%' and state = 'active' and datname = current_database())"
)


async def test_rows_become_what_the_statement_promised(colour: Colour, dsn: str) -> None:
    rows = Statement(
        "pairs",
        "select n, n || '%%' from generate_series(1, %(last)s::int) as n",
        {"last": 2},
        lambda n, text: {n: text},
    )
    async with opened(colour, dsn) as database:
        assert await database.run(rows) == [{1: "1%"}, {2: "2%"}]
        assert await database.run(asking("create table nothing ()")) == []


@pytest.mark.parametrize("count", [0, 2])
async def test_one_row_means_exactly_one(colour: Colour, dsn: str, count: int) -> None:
    async with opened(colour, dsn) as database:
        with pytest.raises(StatementFailed, match=f"asking: one row was expected, {count} came"):
            await database.run_one(asking("select 1 from generate_series(1, %(n)s::int)", n=count))


async def test_a_refused_statement_keeps_its_code_and_the_connection(colour: Colour, dsn: str) -> None:
    async with opened(colour, dsn, PoolOptions(pool_max_conns=1)) as database:
        backend = await database.run_one(BACKEND)
        with pytest.raises(StatementFailed, match='asking: relation "nowhere" does not exist') as raised:
            await database.run(asking("select * from nowhere"))
        assert raised.value.sqlstate == "42P01"
        assert isinstance(raised.value.__cause__, psycopg.errors.UndefinedTable)
        assert await database.run_one(BACKEND) == backend


async def test_a_transaction_commits_all_or_nothing(colour: Colour, dsn: str, observer: Observer) -> None:
    await observer.connection.execute("create table kept (n int primary key)")
    one, two = (asking("insert into kept values (%(n)s::int) returning n", n=n) for n in (1, 2))
    async with opened(colour, dsn) as database:
        assert await database.run_together([one, two]) == [1, 2]
        with pytest.raises(StatementFailed, match="duplicate key"):
            await database.run_together([asking("delete from kept where n = 2 returning n"), one])
    assert await observer.value("select array_agg(n order by n) from kept") == [1, 2]


async def test_a_failure_that_is_caught_inside_does_not_pass_for_a_commit(
    dsn: str, observer: Observer
) -> None:
    await observer.connection.execute("create table kept (n int)")
    async with Database(dsn) as database:
        with pytest.raises(StatementFailed, match="commit: a statement of this transaction failed"):
            await _swallow_a_failure(database)
    assert await observer.value("select count(*) from kept") == 0


async def _swallow_a_failure(database: Database) -> None:
    async with database.transaction() as transaction:
        await transaction.run(asking("insert into kept values (1) returning n"))
        with suppress(StatementFailed):
            await transaction.run(asking("select 1 / 0"))


async def test_copy_runs_on_the_connection_of_the_transaction(dsn: str, observer: Observer) -> None:
    await observer.connection.execute("create table kept (n int)")
    async with Database(dsn) as database, database.transaction() as transaction:
        async with transaction.connection.cursor().copy("copy kept from stdin") as copy:
            await copy.write_row((7,))
        assert await transaction.run_one(asking("select n from kept")) == 7
        assert await observer.value("select count(*) from kept") == 0
    assert await observer.value("select count(*) from kept") == 1


async def test_a_cancelled_caller_leaves_no_transaction_and_no_busy_connection(
    dsn: str, observer: Observer
) -> None:
    async with Database(dsn, PoolOptions(pool_max_conns=1)) as database:
        running = asyncio.create_task(Either(database).run_together([asking("select pg_sleep(60)")]))
        await observer.until(SLEEPING)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await database.run_one(asking("select now() = statement_timestamp()"))
        assert not await observer.value(SLEEPING)


async def test_a_serialization_failure_is_tried_again(colour: Colour, dsn: str, observer: Observer) -> None:
    """Provoked for real: the row that the statement waits for changes under its snapshot."""
    await observer.connection.execute("create sequence tries; create table counter as select 0 as n")
    strict = f"{dsn} options='-c default_transaction_isolation=serializable'"
    add = asking("update counter set n = n + 1 where nextval('tries') > 0 returning n")
    async with opened(colour, strict) as database, await psycopg.AsyncConnection.connect(dsn) as other:
        await other.execute("update counter set n = 10")
        answer = asyncio.create_task(database.run_one(add))
        await observer.until("select exists (select from pg_locks where not granted)")
        await other.commit()
        assert await answer == 11
    assert await observer.value("select last_value from tries") == 2


async def test_a_deadlock_is_tried_again(colour: Colour, dsn: str, observer: Observer) -> None:
    await observer.connection.execute("create sequence tries")
    ours = asking("select nextval('tries'), pg_advisory_xact_lock(1), pg_advisory_xact_lock(2)")
    async with opened(colour, dsn) as database, await psycopg.AsyncConnection.connect(dsn) as other:
        await other.execute("set deadlock_timeout = '30s'")  # so that ours is the one that gives way
        await other.execute("select pg_advisory_xact_lock(2)")
        answer = asyncio.create_task(database.run_one(ours))
        await observer.until("select exists (select from pg_locks where not granted)")
        await other.execute("select pg_advisory_xact_lock(1)")
        await other.commit()
        assert await answer == 2


async def test_inside_a_transaction_a_conflict_is_the_callers(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    await observer.connection.execute("create table kept (n int)")
    async with opened(colour, dsn) as database, observer.connection.transaction():
        await observer.connection.execute("lock table kept")
        with pytest.raises(Conflict, match="could not obtain lock") as raised:
            await database.run_together([asking("lock table kept nowait")])
        assert raised.value.sqlstate == "55P03"


@pytest.mark.requirement("S2.3")
async def test_waiting_for_a_connection_is_bounded_and_says_what_to_do(
    colour: Colour, dsn: str, observer: Observer
) -> None:
    async with opened(colour, dsn, PoolOptions(pool_max_conns=1, pool_timeout="300ms")) as database:
        holding = asyncio.create_task(database.run(asking("select pg_sleep(2)")))
        await observer.until(SLEEPING)
        with pytest.raises(PoolTimeout, match=r"within 0.3 s \(the pool has 1\): raise pool_max") as raised:
            await database.run(BACKEND)
        assert (raised.value.seconds, raised.value.max_size) == (0.3, 1)
        await holding
        assert await database.run_one(BACKEND)


@pytest.mark.requirement("S2.3")
async def test_a_connection_outside_the_pool_does_not_wait_for_it(dsn: str) -> None:
    """Migrations have such a connection, so the bound is none of theirs."""
    async with (
        Database(dsn, PoolOptions(pool_max_conns=1)) as database,
        database.connection(),
        await database.dedicated(purpose="migrations") as connection,
    ):
        assert await (await connection.execute("select 1")).fetchone() == (1,)


async def test_a_database_that_cannot_be_reached_is_named_without_its_password(
    colour: Colour, dsn: str
) -> None:
    hunter2 = "host=127.0.0.1 port=1 dbname=shop password=hunter2"
    with pytest.raises(ConnectionFailed, match=r"cannot connect to 127.0.0.1:1/shop: .*refused") as raised:
        async with opened(colour, hunter2):
            pass
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ConnectionFailed, match='database "nowhere" does not exist') as missing:
        async with opened(colour, f"{dsn} dbname=nowhere"):
            pass
    assert missing.value.sqlstate in (None, "3D000")


async def test_a_string_that_cannot_be_read_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(InvalidConnectionString):
        Database("")
    with pytest.raises(InvalidConnectionString):
        BlockingDatabase("")


async def test_use_outside_the_block_is_a_clear_error(dsn: str) -> None:
    database = Database(dsn)
    with pytest.raises(DatabaseClosed, match="not open"):
        await database.run(BACKEND)
    with pytest.raises(DatabaseClosed, match="not open"):
        await database.dedicated(purpose="listener")
    async with database:
        await database.run(BACKEND)
    with pytest.raises(DatabaseClosed, match="closed"):
        await database.run(BACKEND)
    with pytest.raises(DatabaseClosed, match="closed"):
        await database.transaction().__aenter__()


async def test_a_connection_that_is_lent_out_survives_closing_and_then_ends(
    dsn: str, observer: Observer
) -> None:
    database = Database(dsn)
    await database.open()
    async with database.connection() as connection:
        await database.close()
        cursor = await connection.execute("select pg_backend_pid()")
        row: Any = await cursor.fetchone()
    assert connection.closed
    await observer.until("select not exists (select from pg_stat_activity where pid = %s)", row[0])


async def test_closing_ends_the_waits_for_a_connection(dsn: str) -> None:
    database = Database(dsn, PoolOptions(pool_max_conns=1))
    await database.open()
    async with database.connection():
        waiting = asyncio.create_task(database.run(BACKEND))
        await until(lambda: database._opened.core.waiting == 1)
        await database.close()
        with pytest.raises(DatabaseClosed):
            await waiting


async def test_nothing_is_left_behind(dsn: str, observer: Observer) -> None:
    before = asyncio.all_tasks()
    async with Database(dsn, PoolOptions(pool_min_conns=3)) as database:
        await database.run(BACKEND)
    assert asyncio.all_tasks() == before
    await observer.until(
        "select count(*) = 0 from pg_stat_activity"
        " where datname = current_database() and application_name like 'holdfast/%%' or %s",
        False,
    )


async def test_two_databases_in_one_process_do_not_mind_each_other(dsn: str) -> None:
    async with Database(dsn) as one, Database(dsn) as two:
        assert await one.run_one(BACKEND) != await two.run_one(BACKEND)
        await one.close()
        assert await two.run_one(BACKEND)
