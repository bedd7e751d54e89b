"""Operators' questions: few connections of their own, each answer within a bound."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from holdfast import App, PoolOptions
from holdfast.errors import QuestionTimeout
from support.blocking_in_a_loop import both_colours
from support.waiting import until

OF_QUESTIONS = "application_name = 'holdfast/questions'"
WAITING = f"{OF_QUESTIONS} and wait_event_type = 'Lock'"


def stored(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


def sessions(dsn: str, which: str = "true") -> list[str]:
    ours = "datname = current_database() and application_name like 'holdfast/%'"
    question = f"select application_name from pg_stat_activity where {ours} and {which} order by 1"
    return [row[0].removeprefix("holdfast/") for row in stored(dsn, question)]


@asynccontextmanager
async def unanswered(dsn: str) -> AsyncIterator[None]:
    """While questions about workers wait for a lock."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("lock table holdfast.worker in access exclusive mode")
        yield


async def test_questions_that_wait_keep_nothing_from_being_enqueued(dsn: str) -> None:
    app = App(dsn)

    @app.job
    async def work() -> None: ...

    async with app, unanswered(dsn):
        asking = [asyncio.create_task(app.workers.list()) for _ in range(20)]
        await until(lambda: sessions(dsn, WAITING) == ["questions"] * 3)
        for _ in range(12):
            await work.enqueue()
        assert sessions(dsn).count("questions") == 3
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)


@both_colours
async def test_a_question_that_takes_too_long_says_what_to_do(dsn: str) -> None:
    async with App(dsn, pool=PoolOptions(question_timeout="300ms")) as app, unanswered(dsn):
        with pytest.raises(QuestionTimeout, match=r"within 0\.3 s \(question_timeout\): ask for less"):
            await app.workers.list()
        with pytest.raises(QuestionTimeout):
            app.workers.list_sync()
    async with App(f"{dsn} question_timeout=300ms") as app, unanswered(dsn):
        with pytest.raises(QuestionTimeout):
            await app.workers.list()


async def test_an_app_that_only_asks_opens_nothing_else(dsn: str) -> None:
    app = App(dsn)
    try:
        assert await app.workers.list() == []
        assert (await app.fsck()).is_sound
        assert await asyncio.to_thread(app.jobs.list_sync) is not None
        assert (await asyncio.to_thread(app.fsck_sync)).is_sound
        assert sessions(dsn) == ["questions", "questions"], "one for this loop, one for blocking callers"
    finally:
        await app.close()
    await until(lambda: sessions(dsn) == [])


async def test_a_small_pool_stays_small(dsn: str) -> None:
    async with App(dsn, pool=PoolOptions(pool_max_conns=1)) as app, unanswered(dsn):
        asking = [asyncio.create_task(app.workers.list()) for _ in range(3)]
        await until(lambda: sessions(dsn, WAITING) == ["questions"])
        assert sessions(dsn, OF_QUESTIONS) == ["questions"]
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)


async def test_they_are_closed_when_nobody_asks(dsn: str) -> None:
    options = PoolOptions(pool_max_conn_idle_time="200ms", pool_health_check_period="100ms")
    async with App(dsn, pool=options) as app:
        await app.workers.list()
        assert sessions(dsn, OF_QUESTIONS) == ["questions"]
        await until(lambda: sessions(dsn, OF_QUESTIONS) == [])
        assert await app.workers.list() == [], "the next question opens another"


async def test_a_question_on_a_connection_of_yours_stays_there_without_a_bound(dsn: str) -> None:
    async with App(dsn) as app, await psycopg.AsyncConnection.connect(dsn) as connection:
        await app.workers.list(conn=connection)
        assert sessions(dsn, OF_QUESTIONS) == []
        timeout = await (await connection.execute("show statement_timeout")).fetchone()
    assert timeout == ("0",)
