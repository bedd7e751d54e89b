"""An unusable connection is refused before anything is sent; the error says what to pass instead."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import asyncpg
import psycopg
import psycopg2
import psycopg_pool
import pytest
import sqlalchemy as sa
from django.core.cache import cache
from django.db import connection as django_connection
from django.db import connections
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool

from borrowed.caller_connections import (
    Awaiting,
    awaiting,
    configure_django,
    django_on,
    engine,
    on_async_connection,
    on_async_psycopg,
    on_async_scoped_session,
    on_async_session,
    on_asyncpg,
    on_asyncpg_pool,
    on_engine,
    on_psycopg,
    on_scoped_session,
    on_session,
    parts,
)
from borrowed.notes_table import ask
from holdfast.errors import InvalidInput, WrongConnection
from holdfast.postgres.borrowed import run_on, run_on_blocking

QUESTION = ask("select 1")


@pytest.fixture
def wait() -> Iterator[Awaiting]:
    with awaiting() as wait:
        yield wait


def refused(wait: Awaiting, connection: object) -> str:
    """By both calls, and in the same words."""
    with pytest.raises(WrongConnection) as awaited:
        wait(run_on(connection, QUESTION))
    with pytest.raises(WrongConnection) as blocking:
        run_on_blocking(connection, QUESTION)
    assert isinstance(awaited.value, InvalidInput)
    assert str(awaited.value) == str(blocking.value)
    return str(awaited.value)


def test_a_blocking_connection_is_not_awaited(dsn: str, wait: Awaiting) -> None:
    with ExitStack() as stack:
        for caller, instead in (
            (on_psycopg(dsn), "pass a psycopg.AsyncConnection"),
            (on_engine(engine("psycopg", dsn)), "pass SQLAlchemy's AsyncConnection or AsyncSession"),
            (on_session(engine("psycopg2", dsn)), "pass SQLAlchemy's AsyncConnection or AsyncSession"),
            (on_scoped_session(engine("psycopg", dsn)), "pass SQLAlchemy's AsyncConnection or AsyncSession"),
        ):
            connection = stack.enter_context(caller).connection
            with pytest.raises(WrongConnection, match=f"is blocking: call the .*_sync, or {instead}"):
                wait(run_on(connection, QUESTION))


def test_a_connection_of_django_is_not_awaited(dsn: str, wait: Awaiting) -> None:
    with django_on(dsn):
        for connection in (django_connection, connections["default"]):
            with pytest.raises(WrongConnection, match="wrap the blocking call in sync_to_async"):
                wait(run_on(connection, QUESTION))


def test_an_awaited_connection_does_not_block(dsn: str) -> None:
    for caller, instead in (
        (on_async_psycopg(dsn), "pass a psycopg.Connection"),
        (on_asyncpg(dsn), "asyncpg has no blocking one"),
        (on_asyncpg_pool(dsn), "asyncpg has no blocking one"),
        (on_async_connection("asyncpg", dsn), "SQLAlchemy's Connection or Session"),
        (on_async_session("psycopg", dsn), "SQLAlchemy's Connection or Session"),
        (on_async_scoped_session("asyncpg", dsn), "SQLAlchemy's Connection or Session"),
    ):
        with caller as taken, pytest.raises(WrongConnection, match=f"is awaited: .*without _sync.*{instead}"):
            run_on_blocking(taken.connection, QUESTION)


def test_a_dsn_is_refused_without_being_repeated(wait: Awaiting) -> None:
    said = refused(wait, "postgresql://ann:secret@db/shop")
    assert "open a connection and pass that" in said
    assert "secret" not in said


def test_nothing_and_anything_are_refused(wait: Awaiting) -> None:
    assert refused(wait, None).startswith("cannot run on None: pass the connection")
    known = "pass an open connection of psycopg, asyncpg, SQLAlchemy"
    for thing in (object(), 5, sa, psycopg.Connection, {"dsn": ""}):
        assert known in refused(wait, thing)


def test_a_forgotten_await_is_named(wait: Awaiting) -> None:
    async def connect() -> None: ...

    coroutine = connect()
    assert "coroutine: await it first" in refused(wait, coroutine)
    coroutine.close()


def test_what_opens_connections_is_not_one(dsn: str, wait: Awaiting) -> None:
    maker = engine("psycopg", dsn)
    assert '"with engine.begin() as connection"' in refused(wait, maker)
    assert '"with make_session.begin() as session"' in refused(wait, sessionmaker(maker))
    async_maker = create_async_engine("postgresql+asyncpg://")
    assert '"async with engine.begin() as connection"' in refused(wait, async_maker)
    assert '"async with make_session.begin() as session"' in refused(wait, async_sessionmaker(async_maker))


def test_a_pool_of_psycopg_is_not_a_connection(dsn: str, wait: Awaiting) -> None:
    for pool in (
        psycopg_pool.ConnectionPool(dsn, open=False),
        psycopg_pool.NullConnectionPool(dsn, open=False),
        psycopg_pool.AsyncConnectionPool(dsn, open=False),
    ):
        assert '"with pool.connection() as connection"' in refused(wait, pool)


def test_a_pool_of_asyncpg_is_not_a_connection(dsn: str, wait: Awaiting) -> None:
    pool = wait(asyncpg.create_pool(**parts(dsn, dbname="database"), min_size=1, max_size=1))
    assert '"async with pool.acquire() as connection"' in refused(wait, pool)
    assert "or await it" in refused(wait, pool.acquire())
    wait(pool.close())


def test_a_cursor_is_not_a_connection(dsn: str, wait: Awaiting) -> None:
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        assert "pass its connection" in refused(wait, cursor)


def test_a_bare_connection_of_psycopg2_is_refused(dsn: str, wait: Awaiting) -> None:
    connection = psycopg2.connect(dsn)
    assert "psycopg2 through SQLAlchemy or Django" in refused(wait, connection)
    connection.close()


def test_all_connections_of_django_are_not_one(wait: Awaiting) -> None:
    configure_django()
    assert 'such as connections["default"]' in refused(wait, connections)


def test_a_connection_of_django_to_another_database_is_refused() -> None:
    configure_django()
    with pytest.raises(WrongConnection, match="this Django connection is for sqlite"):
        run_on_blocking(connections["light"], QUESTION)


def test_a_cache_of_django_is_not_taken_for_a_connection() -> None:
    configure_django()
    with pytest.raises(WrongConnection, match=r"is not for a database: pass django\.db\.connection"):
        run_on_blocking(cache, QUESTION)


@contextmanager
def light_engine() -> Iterator[sa.Engine]:
    engine = sa.create_engine("sqlite://")
    yield engine
    engine.dispose()


def test_an_engine_for_another_database_is_refused_and_nothing_is_begun() -> None:
    with light_engine() as engine, engine.connect() as connection, Session(engine) as session:
        for wrong in (connection, session):
            with pytest.raises(WrongConnection, match=r"is sqlite\+pysqlite: .* postgresql\+asyncpg"):
                run_on_blocking(wrong, QUESTION)
            assert not wrong.in_transaction()


def test_a_closed_connection_of_psycopg_is_refused(dsn: str, wait: Awaiting) -> None:
    with psycopg.connect(dsn) as connection:
        pass
    with pytest.raises(WrongConnection, match=r"a psycopg\.Connection is closed"):
        run_on_blocking(connection, QUESTION)
    with on_async_psycopg(dsn) as caller:
        pass
    with pytest.raises(WrongConnection, match=r"a psycopg\.AsyncConnection is closed"):
        wait(run_on(caller.connection, QUESTION))


def test_a_closed_connection_of_asyncpg_is_refused(dsn: str, wait: Awaiting) -> None:
    with on_asyncpg(dsn) as caller:
        pass
    with pytest.raises(WrongConnection, match="is closed"):
        wait(run_on(caller.connection, QUESTION))


def test_a_connection_that_was_given_back_to_its_pool_is_refused(dsn: str, wait: Awaiting) -> None:
    with on_asyncpg_pool(dsn) as caller:
        pass
    with pytest.raises(WrongConnection, match="was given back to its pool"):
        wait(run_on(caller.connection, QUESTION))


def test_a_closed_connection_of_sqlalchemy_is_refused(dsn: str, wait: Awaiting) -> None:
    with on_engine(engine("psycopg", dsn)) as caller:
        pass
    with pytest.raises(WrongConnection, match="is closed"):
        run_on_blocking(caller.connection, QUESTION)
    with on_async_connection("asyncpg", dsn) as caller:
        pass
    with pytest.raises(WrongConnection, match="is closed"):
        wait(run_on(caller.connection, QUESTION))


def test_a_connection_of_sqlalchemy_that_was_not_awaited_is_refused(wait: Awaiting) -> None:
    engine = create_async_engine("postgresql+asyncpg://", poolclass=NullPool)
    with pytest.raises(WrongConnection, match="is not open yet"):
        wait(run_on(engine.connect(), QUESTION))


def test_a_library_that_is_not_used_is_not_imported() -> None:
    look = (
        "import sys, holdfast.postgres.borrowed as borrowed\n"
        "try: borrowed.run_on_blocking(None, None)\n"
        "except ValueError: pass\n"
        "print(*{'asyncpg', 'sqlalchemy', 'django', 'psycopg', 'psycopg2'} & set(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.split() == []
