"""`ctx.transaction()`: a handler's writes, follow-up jobs and completion, together or not at all."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from django.db import connection as django_connection
from django.db import connections
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from acceptance.books import Books
from acceptance.in_process_workers import ONCE_MORE, ledger, working
from borrowed.caller_connections import configure_django, django_on, parts
from holdfast import App, Context
from holdfast.errors import InvalidInput, LeaseLost
from support.waiting import until

WRITE = "insert into effect (job, run, note) values (:job, :run, 'written')"


def values(ctx: Context) -> dict[str, int]:
    return {"job": ctx.job.id, "run": ctx.fencing_token}


def write(ctx: Context, conn: Any) -> Any:
    """On a connection of psycopg's, of either colour."""
    return conn.execute("insert into effect (job, run) values (%(job)s, %(run)s)", values(ctx))


@pytest.mark.requirement("S2.35", "S4.16")
async def test_writes_follow_up_jobs_and_completion_are_one_commit(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def follow(number: int) -> int:
            return number

        @app.job
        async def lead(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await write(ctx, conn)
                await follow.using(conn=conn).enqueue(1)
                await app.enqueue_many([follow.call(2), follow.call(3)], conn=conn)

        async with working(app):
            await lead.enqueue()
            await books.all_finished(4)
    assert books.effects() == 1
    books.assert_balanced(4)


@pytest.mark.requirement("S2.35", "S2.29")
async def test_what_is_raised_inside_rolls_everything_back_and_is_tried_again(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def follow() -> None:
            pass

        @app.job(retry=ONCE_MORE)
        async def stumble(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await write(ctx, conn)
                await follow.using(conn=conn).enqueue()
                if ctx.attempt == 1:
                    raise RuntimeError("in the middle")

        async with working(app):
            handle = await stumble.enqueue()
            await books.all_finished(2)
    assert books.outcomes(handle.id) == ["retried", "succeeded"]
    assert books.run("select attempt from effect e join holdfast.ledger l using (job, run)") == [(2,)]
    books.assert_balanced(2)


@pytest.mark.requirement("S2.35")
async def test_what_is_raised_afterwards_is_logged_and_not_tried_again(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(dsn) as app:

        @app.job(retry=ONCE_MORE)
        async def stumble_late(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await write(ctx, conn)
            raise RuntimeError("too late")

        async with working(app):
            handle = await stumble_late.enqueue()
            await books.all_finished(1)
    assert books.outcomes(handle.id) == ["succeeded"]
    [record] = [
        record for record in caplog.records if "raised after ctx.transaction()" in record.getMessage()
    ]
    assert record.exc_info
    assert "too late" in str(record.exc_info[1])
    books.assert_effects_once(1)


async def test_a_handler_that_goes_on_after_its_commit_is_left_alone(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    beats = asyncio.Queue[None]()
    async with App(dsn) as app:

        @app.job
        async def linger(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await write(ctx, conn)
            await beats.get()

        async with working(app) as worker:
            await linger.enqueue()
            await books.all_finished(1)
            before = last_beat(books, worker.id)
            await until(lambda: last_beat(books, worker.id) > before, "a beat")
            before = last_beat(books, worker.id)
            await until(lambda: last_beat(books, worker.id) > before, "another beat")
            beats.put_nowait(None)
    assert not [record for record in caplog.records if "lost" in record.getMessage()]


def last_beat(books: Books, worker: int | None) -> Any:
    return books.value("select beat_at from holdfast.worker where id = %s", worker)


@pytest.mark.requirement("S1.28", "S1.29", "S4.21")
async def test_a_run_that_was_taken_away_inside_gets_lease_lost_and_writes_nothing(
    dsn: str, books: Books
) -> None:
    seen: list[BaseException] = []
    async with App(dsn) as app:
        inside, taken = asyncio.Event(), asyncio.Event()

        @app.job(retry=ONCE_MORE)
        async def slow(ctx: Context) -> None:
            try:
                async with ctx.transaction() as conn:
                    await write(ctx, conn)
                    if ctx.attempt == 1:
                        inside.set()
                        await taken.wait()
            except LeaseLost as error:
                seen.append(error)
                raise

        # Beats are so rare that it is the fence, not the heartbeat, that finds out.
        async with working(app, lease=60, beat=20, is_leading_allowed=False) as first:

            def has_been_taken_over() -> bool:
                # More than once: its first beat may still be under way.
                books.run("update holdfast.worker set expires_at = now() where id = %s", first.id)
                return books.finished() == 1

            handle = await slow.enqueue()
            await inside.wait()
            async with working(app):
                await until(has_been_taken_over, "another worker has run it")
                taken.set()
                await until(lambda: seen, "the first run is refused")
    assert f"lost its lease on job {handle.id}" in str(seen[0])
    assert books.outcomes(handle.id) == ["retried", "succeeded"]
    books.assert_effects_once(1)


async def test_a_job_is_completed_once_in_a_run(dsn: str, books: Books) -> None:
    refused: list[InvalidInput] = []
    async with App(dsn) as app:

        @app.job
        async def twice(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await write(ctx, conn)
            try:
                async with ctx.transaction():
                    pass
            except InvalidInput as error:
                refused.append(error)

        async with working(app):
            await twice.enqueue()
            await books.all_finished(1)
    assert len(refused) == 1
    books.assert_effects_once(1)


async def test_a_task_that_outlives_its_block_cannot_write_into_the_next_ones_transaction(
    dsn: str, books: Books
) -> None:
    late: list[asyncio.Task[Any]] = []
    is_open = asyncio.Event()
    async with App(dsn) as app:

        async def write_late(ctx: Context, conn: Any) -> None:
            await is_open.wait()
            await write(ctx, conn)

        @app.job
        async def leave_a_task(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                late.append(asyncio.create_task(write_late(ctx, conn)))
                await write(ctx, conn)

        @app.job
        async def pay(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                is_open.set()
                with pytest.raises(psycopg.OperationalError, match="has ended"):
                    await late[0]
                await write(ctx, conn)

        async with working(app):
            await (await leave_a_task.enqueue()).result("30s")
            await (await pay.enqueue()).result("30s")
    assert books.effects() == 2
    books.assert_effects_once(2)


@pytest.mark.parametrize("style", ["coroutine", "thread"])
async def test_many_open_transactions_hold_up_neither_the_lease_nor_the_chores(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture, style: str
) -> None:
    may_end, inside = threading.Event(), threading.Semaphore(0)
    async with App(dsn) as app:

        async def awaited(ctx: Context) -> None:
            async with ctx.transaction() as conn:
                await write(ctx, conn)
                inside.release()
                await asyncio.to_thread(may_end.wait, 20)

        def plain(ctx: Context) -> None:
            with ctx.transaction() as conn:
                write(ctx, conn)
                inside.release()
                may_end.wait(20)

        pay: Any = app.job(name="pay")(awaited if style == "coroutine" else plain)

        @app.job
        async def follow() -> None:
            pass

        async with working(app, lease=3):
            await app.enqueue_many([pay.call() for _ in range(15)])
            for _ in range(10):  # as many as the pool has connections
                await until(lambda: inside.acquire(blocking=False), "they are in their transactions")
            for _ in range(4):
                await (await follow.using(delay="1s").enqueue()).result("10s")
            may_end.set()
            await books.all_finished(19)
    assert not [line for line in caplog.messages if "lost" in line]
    books.assert_balanced(19)
    books.assert_effects_once(15)


@pytest.mark.requirement("S2.35")
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_the_handlers_own_async_session_is_committed_with_the_job(
    dsn: str, books: Books, driver: str
) -> None:
    arguments = parts(dsn, dbname="database") if driver == "asyncpg" else parts(dsn)
    engine = create_async_engine(f"postgresql+{driver}://", connect_args=arguments)
    async with App(dsn) as app:

        @app.job(retry=ONCE_MORE)
        async def lead(ctx: Context) -> None:
            async with AsyncSession(engine) as session:
                async with ctx.transaction(session) as same:
                    assert same is session
                    await session.execute(sa.text(WRITE), values(ctx))
                    await follow.using(conn=session).enqueue()
                    if ctx.attempt == 1:
                        raise RuntimeError("in the middle")
                assert not session.in_transaction()

        @app.job
        async def follow() -> None:
            pass

        async with working(app):
            handle = await lead.enqueue()
            await books.all_finished(2)
    await engine.dispose()
    assert books.outcomes(handle.id) == ["retried", "succeeded"]
    assert books.effects() == 1
    books.assert_balanced(2)


@pytest.fixture
def django(dsn: str) -> Iterator[None]:
    configure_django()
    with django_on(dsn):
        yield
        assert connections["default"].connection is None, "used in threads only"


def by_own_connection(ctx: Context, dsn: str) -> None:
    with ctx.transaction() as conn:
        write(ctx, conn)
        stumble_at_first(ctx)


def by_psycopg(ctx: Context, dsn: str) -> None:
    with psycopg.connect(dsn) as connection, ctx.transaction(connection):
        write(ctx, connection)
        stumble_at_first(ctx)


def by_session(ctx: Context, dsn: str) -> None:
    engine = sa.create_engine("postgresql+psycopg://", connect_args=parts(dsn), poolclass=sa.NullPool)
    with Session(engine) as session, ctx.transaction(session):
        session.execute(sa.text(WRITE), values(ctx))
        stumble_at_first(ctx)


def by_django(ctx: Context, dsn: str) -> None:
    try:
        with ctx.transaction(django_connection), django_connection.cursor() as cursor:
            cursor.execute("insert into effect (job, run) values (%s, %s)", [*values(ctx).values()])
            stumble_at_first(ctx)
    finally:
        django_connection.close()


def stumble_at_first(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise RuntimeError("in the middle")


@pytest.mark.requirement("S2.35")
@pytest.mark.parametrize("way", [by_own_connection, by_psycopg, by_session, by_django])
async def test_a_plain_function_commits_its_writes_with_its_job(
    dsn: str, books: Books, django: None, way: Any
) -> None:
    async with App(dsn) as app:

        @app.job(retry=ONCE_MORE)
        def pay(ctx: Context) -> None:
            way(ctx, dsn)

        async with working(app):
            handle = await pay.enqueue()
            await books.all_finished(1)
    first, second = ledger(app, books, handle.id)
    assert (first["outcome"], first["error"]["message"]) == ("retried", "in the middle")
    assert second["outcome"] == "succeeded"
    books.assert_balanced(1)
    books.assert_effects_once(1)
