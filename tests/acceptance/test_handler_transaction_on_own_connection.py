"""`ctx.transaction(own)` on a connection that is in autocommit, in a transaction already, or ended inside."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from acceptance.books import Books
from acceptance.in_process_workers import ONCE_MORE, ledger, working
from acceptance.own_connections import (
    Run,
    Way,
    asyncpg_connection,
    by_async_sqlalchemy,
    by_blocking_psycopg,
    by_psycopg,
    by_sqlalchemy,
    django_own,
)
from borrowed.caller_connections import configure_django, django_on, parts
from holdfast import App, Context
from holdfast.errors import JobEnded
from support.waiting import until


@pytest.fixture(autouse=True)
def django(dsn: str) -> Iterator[None]:
    configure_django()
    with django_on(dsn):
        yield
        assert connections["default"].connection is None, "used in threads only"


def paying(app: App, dsn: str, way: Way, *texts: str, is_raising: Callable[[Context], bool]) -> Any:
    """A job that writes, sends `texts` and perhaps raises, inside of a block on its own connection."""

    def write(ctx: Context) -> str:
        return f"insert into effect (job, run) values ({ctx.job.id}, {ctx.fencing_token})"

    async def awaited(ctx: Context) -> None:
        assert way.awaited is not None
        async with way.awaited(dsn) as (connection, run), ctx.transaction(connection):
            for text in (write(ctx), *texts):
                await run(text)
            if is_raising(ctx):
                raise RuntimeError("in the middle")

    def plain(ctx: Context) -> None:
        assert way.plain is not None
        with way.plain(dsn) as (connection, run), ctx.transaction(connection):
            for text in (write(ctx), *texts):
                run(text)
            if is_raising(ctx):
                raise RuntimeError("in the middle")

    function: Any = awaited if way.awaited else plain
    return app.job(name="pay", retry=ONCE_MORE)(function)


AUTOCOMMIT = {
    "psycopg": by_psycopg(autocommit=True),
    "blocking psycopg": by_blocking_psycopg(autocommit=True),
}


@pytest.mark.requirement("S2.35")
@pytest.mark.parametrize("way", AUTOCOMMIT.values(), ids=AUTOCOMMIT)
async def test_a_connection_in_autocommit_is_given_a_transaction(dsn: str, books: Books, way: Way) -> None:
    async with App(dsn) as app:
        pay = paying(app, dsn, way, is_raising=lambda ctx: ctx.attempt == 1)
        async with working(app):
            handle = await pay.enqueue()
            await books.all_finished(1)
    assert books.outcomes(handle.id) == ["retried", "succeeded"]
    books.assert_balanced(1)
    books.assert_effects_once(1)


ENGINES = {
    "psycopg": by_async_sqlalchemy("psycopg", isolation_level="AUTOCOMMIT"),
    "asyncpg": by_async_sqlalchemy("asyncpg", isolation_level="AUTOCOMMIT"),
    "asyncpg's connection": by_async_sqlalchemy("asyncpg", "connection", isolation_level="AUTOCOMMIT"),
    "blocking psycopg": by_sqlalchemy("psycopg", isolation_level="AUTOCOMMIT"),
    "blocking psycopg's connection": by_sqlalchemy("psycopg", "connection", isolation_level="AUTOCOMMIT"),
    "psycopg2": by_sqlalchemy("psycopg2", isolation_level="AUTOCOMMIT"),
}


@pytest.mark.parametrize("way", ENGINES.values(), ids=ENGINES)
async def test_an_engine_in_autocommit_is_refused_before_anything_is_written(
    dsn: str, books: Books, way: Way
) -> None:
    async with App(dsn) as app:
        pay = paying(app, dsn, way, is_raising=lambda _: True)
        async with working(app):
            with pytest.raises(JobEnded, match=r"WrongConnection: .*is in autocommit.*isolation_level"):
                await (await pay.enqueue()).result("20s")
    assert books.effects() == 0


@asynccontextmanager
async def inside_psycopg(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection, connection.transaction():
        yield connection, connection.execute


@contextmanager
def inside_blocking_psycopg(dsn: str) -> Iterator[tuple[Any, Run]]:
    with psycopg.connect(dsn) as connection, connection.transaction():
        yield connection, connection.execute


@asynccontextmanager
async def inside_asyncpg(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
    async with asyncpg_connection(dsn) as (connection, run), connection.transaction():
        yield connection, run


@contextmanager
def inside_atomic(dsn: str) -> Iterator[tuple[Any, Run]]:
    with django_own(dsn) as own, transaction.atomic():
        yield own


@contextmanager
def joined_session(dsn: str) -> Iterator[tuple[Any, Run]]:
    engine = sa.create_engine("postgresql+psycopg://", connect_args=parts(dsn), poolclass=sa.NullPool)
    with engine.begin() as connection, Session(connection) as session:
        yield session, lambda text: session.execute(sa.text(text))


@asynccontextmanager
async def joined_async_session(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
    engine = create_async_engine("postgresql+psycopg://", connect_args=parts(dsn), poolclass=sa.NullPool)
    async with engine.begin() as connection, AsyncSession(connection) as session:
        yield session, lambda text: session.execute(sa.text(text))


OPEN = {
    "psycopg": Way(inside_psycopg),
    "psycopg that has begun by hand": by_psycopg("begin", autocommit=True),
    "blocking psycopg": Way(plain=inside_blocking_psycopg),
    "asyncpg": Way(inside_asyncpg),
    "atomic": Way(plain=inside_atomic),
    "session on a connection": Way(plain=joined_session),
    "async session on a connection": Way(joined_async_session),
}


@pytest.mark.parametrize("way", OPEN.values(), ids=OPEN)
async def test_a_connection_inside_another_transaction_is_refused(dsn: str, books: Books, way: Way) -> None:
    async with App(dsn) as app:
        pay = paying(app, dsn, way, is_raising=lambda _: False)
        async with working(app):
            handle = await pay.enqueue()
            with pytest.raises(JobEnded, match=r"WrongConnection: .*is in a transaction already"):
                await handle.result("20s")
    assert books.effects() == 0
    assert books.outcomes(handle.id) == ["retried", "failed"]


@contextmanager
def django_without_autocommit(dsn: str) -> Iterator[tuple[Any, Run]]:
    with django_own(dsn) as own:
        transaction.set_autocommit(False)
        yield own
        transaction.rollback()


async def test_django_with_its_autocommit_off_is_refused(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        pay = paying(app, dsn, Way(plain=django_without_autocommit), is_raising=lambda _: False)
        async with working(app):
            with pytest.raises(JobEnded, match="commits nothing: call set_autocommit"):
                await (await pay.enqueue()).result("20s")
    assert books.effects() == 0


@asynccontextmanager
async def nested_session(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
    engine = create_async_engine("postgresql+psycopg://", connect_args=parts(dsn), poolclass=sa.NullPool)
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(sa.text(BEFORE))
        async with session.begin_nested():
            yield session, lambda text: session.execute(sa.text(text))


@asynccontextmanager
async def begun_connection(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
    engine = create_async_engine(
        "postgresql+asyncpg://", connect_args=parts(dsn, dbname="database"), poolclass=sa.NullPool
    )
    async with engine.begin() as connection:
        await connection.execute(sa.text(BEFORE))
        yield connection, lambda text: connection.execute(sa.text(text))


BEFORE = "insert into earlier values (1)"
BEGUN = {
    "psycopg": by_psycopg(BEFORE),
    "blocking psycopg": by_blocking_psycopg(BEFORE),
    "session": by_async_sqlalchemy("asyncpg", prepare=BEFORE),
    "connection": by_async_sqlalchemy("psycopg", "connection", BEFORE),
    "savepoint of a session": Way(nested_session),
    "begin() of an engine": Way(begun_connection),
}


@pytest.mark.parametrize("way", BEGUN.values(), ids=BEGUN)
async def test_what_a_connection_has_begun_itself_is_committed_or_rolled_back_with_the_block(
    dsn: str, books: Books, way: Way
) -> None:
    books.run("create table earlier (number int)")
    async with App(dsn) as app:
        pay = paying(app, dsn, way, is_raising=lambda ctx: ctx.attempt == 1)
        async with working(app):
            await pay.enqueue()
            await books.all_finished(1)
    books.assert_balanced(1)
    books.assert_effects_once(1)
    assert books.value("select count(*) from earlier") == 1


@asynccontextmanager
async def verbs_of_a_session(dsn: str) -> AsyncIterator[tuple[Any, Run]]:
    """The connection's own commit() and rollback(), after which it silently begins another transaction."""
    async with by_async_sqlalchemy("psycopg").awaited(dsn) as (session, run):  # type: ignore[misc]  # given
        yield session, lambda text: getattr(session, text, lambda: run(text))()


ENDED = {
    "psycopg": by_psycopg(),
    "psycopg in autocommit": by_psycopg(autocommit=True),
    "blocking psycopg": by_blocking_psycopg(),
    "asyncpg": Way(asyncpg_connection),
    "session": Way(verbs_of_a_session),
    "asyncpg's connection of SQLAlchemy": by_async_sqlalchemy("asyncpg", "connection"),
    "psycopg2's session": by_sqlalchemy("psycopg2"),
    "django": Way(plain=django_own),
}


@pytest.mark.parametrize("is_raising", [False, True], ids=["left", "raised"])
@pytest.mark.parametrize("verb", ["commit", "rollback"])
@pytest.mark.parametrize("way", ENDED.values(), ids=ENDED)
async def test_a_block_whose_transaction_was_ended_inside_fails_its_job_for_good(
    dsn: str, books: Books, way: Way, verb: str, is_raising: bool
) -> None:
    async with App(dsn) as app:
        pay = paying(app, dsn, way, verb, "select 1", is_raising=lambda _: is_raising)
        async with working(app):
            handle = await pay.enqueue()
            with pytest.raises(JobEnded, match=r"TransactionEnded: .*leave commit and rollback to the block"):
                await handle.result("20s")
    assert books.outcomes(handle.id) == ["failed"]
    assert books.effects() == (1 if verb == "commit" else 0)
    [run] = ledger(app, books, handle.id)
    assert bool([cause for cause in run["error"]["causes"] if "in the middle" in cause]) is is_raising


@pytest.mark.requirement("S2.35")
@pytest.mark.parametrize("way", ENDED.values(), ids=ENDED)
async def test_a_run_that_has_lost_its_lease_commits_nothing(
    dsn: str, books: Books, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    taken_away = threading.Event()

    def take_the_lease_away(ctx: Context) -> bool:
        books.run("delete from holdfast.lease where job = %s", ctx.job.id)
        taken_away.set()
        return False

    async with App(dsn) as app:
        pay = paying(app, dsn, way, is_raising=take_the_lease_away)
        # Beats are so rare that it is the fence, not the heartbeat, that finds out.
        async with working(app, lease=60, beat=20):
            handle = await pay.enqueue()
            await until(taken_away.is_set, "its lease is gone")
    assert books.effects() == 0
    assert "lease lost" in caplog.text
    assert books.outcomes(handle.id) == []
