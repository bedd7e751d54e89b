"""New jobs are counted once, however late their transaction commits."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.postgres.database import Database
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import migrate
from holdfast.storage.migrations import packaged
from holdfast.worker.chores.enqueue_counter import EnqueueCounter
from support.engine import SCHEMA, Engine
from support.server_faults import restart


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn) as database:
        yield database


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn, now=None) as engine:
        yield engine


def counted(engine: Engine) -> int:
    rows = engine.connection.execute("select coalesce(sum(enqueued), 0) from holdfast.beginning").fetchall()
    return int(rows[0][0])


async def test_a_job_that_commits_late_is_counted_once(dsn: str, database: Database, engine: Engine) -> None:
    counter = EnqueueCounter(database, SCHEMA)
    with Engine.on(dsn, now=None) as late:
        with late.connection.transaction():
            late.enqueue()
            engine.enqueue()
            for _ in range(3):
                assert (await counter.once()).again_in
                assert counted(engine) == 0, "its id lies before the other's"
        await counter.once()
        assert counted(engine) == 2
        with late.connection.transaction(force_rollback=True):
            late.enqueue()
            await counter.once()
    engine.enqueue()
    for _ in range(3):
        await counter.once()
        await EnqueueCounter(database, SCHEMA).once()
    assert counted(engine) == 3, "what is rolled back is not counted"


async def test_transactions_that_begin_later_hold_nothing_up(
    dsn: str, database: Database, engine: Engine
) -> None:
    counter = EnqueueCounter(database, SCHEMA)
    with Engine.on(dsn, now=None) as first, Engine.on(dsn, now=None) as second:
        with first.connection.transaction():
            first.enqueue()
            await counter.once()
            second.connection.execute("begin")
            second.enqueue()
        await counter.once()
        assert counted(engine) == 1
        second.connection.execute("commit")
    await counter.once()
    assert counted(engine) == 2


async def test_a_job_of_a_prepared_transaction_is_counted_once(
    dsn: str, database: Database, engine: Engine
) -> None:
    [(most,)] = engine.connection.execute("select current_setting('max_prepared_transactions')").fetchall()
    if most == "0":
        pytest.skip("this server prepares no transactions")
    counter = EnqueueCounter(database, SCHEMA)
    with Engine.on(dsn, now=None) as late:
        late.connection.execute("begin")
        late.enqueue()  # without a notification, with which no transaction can be prepared
        await counter.once()
        late.connection.execute("prepare transaction 'mail'")
        await counter.once()
        late.connection.execute("commit prepared 'mail'")
    await counter.once()
    assert counted(engine) == 1


async def test_a_job_that_was_prepared_before_a_restart_is_counted_once(tmp_path: Path) -> None:
    """The restart gives its transaction another name."""
    settings = {"fsync": "off", "max_prepared_transactions": "5"}
    with EmbeddedServer.start(tmp_path, settings=settings) as server:
        with psycopg.connect(server.dsn) as connection:
            migrate(connection, SCHEMA, packaged())
        async with Database(server.dsn) as database:
            counter = EnqueueCounter(database, SCHEMA)
            with Engine.on(server.dsn, now=None) as late:
                late.connection.execute("begin")
                late.enqueue()
                await counter.once()
                late.connection.execute("prepare transaction 'mail'")
            await asyncio.to_thread(restart, server, "fast")
            await counter.once()
            with Engine.on(server.dsn, now=None) as engine:
                engine.connection.execute("commit prepared 'mail'")
                await counter.once()
                assert counted(engine) == 1


async def test_a_turn_without_new_jobs_asks_once(database: Database, engine: Engine) -> None:
    did = await EnqueueCounter(database, SCHEMA).once()
    assert (did.count, did.is_more, did.again_in) == (0, False, None), "so that the chore waits longer"
