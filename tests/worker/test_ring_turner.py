"""The ring is cleared although claims are always under way, and left alone while a transaction holds it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.ring import Pace
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.worker.chores.ring_turner import RingTurner
from support.engine import SCHEMA, Engine
from support.waiting import until

AT_ONCE = Pace(full=1, old=timedelta())


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn) as database:
        yield database


@pytest.fixture
async def claim_under_way(dsn: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Reads the segment that is now drained and no longer current."""
    with Engine.on(dsn, now=None) as engine:
        worker = engine.worker()
        engine.enqueue()
        [claimed] = engine.claim(worker)
        engine.connection.execute("update holdfast.ring set current = 1, version = version + 1")
        assert claimed.job is not None
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("lock table holdfast.ready_0 in row share mode")
        yield connection


async def test_a_segment_is_cleared_as_soon_as_the_claims_under_way_have_ended(
    dsn: str, database: Database, claim_under_way: psycopg.AsyncConnection[Any]
) -> None:
    turning = asyncio.create_task(RingTurner(database, Schema(), AT_ONCE).once())
    await until(lambda: value(dsn, "select closed = 0 from holdfast.ring"))
    await claim_under_way.rollback()
    async with asyncio.timeout(20):
        await turning
    assert await value(dsn, "select pg_relation_size('holdfast.ready_0')") == 0
    assert await value(dsn, "select closed from holdfast.ring") is None


async def test_a_leader_that_freezes_never_keeps_a_segment_locked(
    dsn: str, database: Database, claim_under_way: psycopg.AsyncConnection[Any]
) -> None:
    """The lock is taken and given back in one statement: no reader waits for the leader's next one."""
    await claim_under_way.rollback()
    with Engine.on(dsn, now=None) as engine:
        engine.connection.execute(
            """
            create table seen (is_alone boolean);
            create function seen() returns trigger language plpgsql as $$
            begin
                insert into public.seen values (transaction_timestamp() = statement_timestamp());
                return null;
            end $$;
            create trigger seen before truncate on holdfast.ready_0
                for each statement execute function seen();
            """
        )
    async with asyncio.timeout(20):
        await RingTurner(database, Schema(), AT_ONCE).once()
    assert await value(dsn, "select array_agg(is_alone) from seen") == [True]


async def test_a_drained_segment_that_a_transaction_holds_stays_closed_until_a_row_appears_in_it(
    dsn: str, database: Database, claim_under_way: psycopg.AsyncConnection[Any]
) -> None:
    turner = RingTurner(database, SCHEMA, AT_ONCE)
    await claim_under_way.execute(
        "insert into holdfast.ready (queue, priority, job, segment, kind, attempt, ready_at)"
        " values ('default', 5, 7, 0, 'mail', 0, now())"
    )
    for _ in range(2):
        await turner.once()
        assert await value(dsn, "select closed from holdfast.ring") == 0
    await claim_under_way.commit()
    await turner.once()
    assert await value(dsn, "select closed from holdfast.ring") is None
    assert await value(dsn, "select count(*) from holdfast.ready") == 1


async def test_while_one_segment_is_held_the_others_are_cleared(
    dsn: str, database: Database, claim_under_way: psycopg.AsyncConnection[Any]
) -> None:
    turner = RingTurner(database, SCHEMA, AT_ONCE)
    await turner.once()
    with Engine.on(dsn, now=None) as engine:
        worker = engine.worker()
        engine.enqueue()
        engine.claim(worker)
        engine.connection.execute("update holdfast.ring set current = 2, version = version + 1")
    await turner.once()
    assert await value(dsn, "select pg_relation_size('holdfast.ready_1')") == 0
    assert await value(dsn, "select pg_relation_size('holdfast.ready_0')") > 0
    assert await value(dsn, "select closed from holdfast.ring") == 0


async def value(dsn: str, question: str) -> Any:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        row = await (await connection.execute(question.encode())).fetchone()
    assert row is not None
    return row[0]
