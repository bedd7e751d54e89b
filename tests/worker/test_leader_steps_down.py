"""A leader that ends steps down first, even if it is cancelled twice, and leaves no task behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from holdfast.domain.retention import Retention
from holdfast.postgres.database import Database
from holdfast.telemetry.events import Emitter
from holdfast.worker.chores.chore import ChoreNeeds
from holdfast.worker.chores.leader import Leader
from holdfast.worker.unserved_warnings import UnservedWarnings
from support.engine import SCHEMA, Engine
from support.waiting import until

LONG = timedelta(minutes=10)
HELD = "select worker from holdfast.leader where expires_at > now()"
BLOCKED = "select 1 from pg_locks where not granted and relation = 'holdfast.leader'::regclass"


@asynccontextmanager
async def leading(database: Database, worker: int) -> AsyncIterator["asyncio.Task[None]"]:
    unserved = UnservedWarnings(database, SCHEMA, Emitter())
    needs = ChoreNeeds(database, SCHEMA, Emitter(), Retention(), LONG, on_end=lambda: None, unserved=unserved)
    leader = Leader(database, [], needs, worker=lambda: worker, lease=LONG)
    task = asyncio.create_task(leader.run())
    await until(lambda: leader.is_leader, "it leads")
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_leader_that_is_cancelled_again_still_steps_down_before_it_ends(dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        async with Database(dsn) as database, leading(database, engine.worker()) as task:
            with engine.connection.transaction():
                engine.connection.execute("lock table holdfast.leader")
                task.cancel()
                await until(lambda: engine.connection.execute(BLOCKED).fetchall() != [], "it steps down")
                task.cancel()
                await asyncio.wait([task], timeout=0.1)
                assert not task.done()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert engine.connection.execute(HELD).fetchall() == []


async def test_a_leader_whose_database_was_closed_ends_without_an_error(dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        async with Database(dsn) as database, leading(database, engine.worker()) as task:
            await database.close()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
