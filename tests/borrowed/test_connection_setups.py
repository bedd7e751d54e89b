"""Autocommit, pipelines, row factories and codecs of a connection neither break Holdfast nor change."""

import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from django.db import connection as django_connection
from django.db import transaction
from django.test.utils import CaptureQueriesContext, override_settings
from psycopg import adapt
from psycopg.rows import dict_row
from psycopg.types.numeric import FloatLoader
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from borrowed.caller_connections import (
    django_on,
    engine,
    on_async_connection,
    on_async_psycopg,
    on_asyncpg,
    on_engine,
    on_psycopg,
    parts,
)
from borrowed.example_values import NOON, typed
from borrowed.notes_table import Note, ask, read, write, write_silently
from holdfast.postgres.borrowed import run_on, run_on_blocking


def bodies(observer: psycopg.Connection) -> list[str]:
    return [body for (body,) in observer.execute("select body from note order by id")]


def test_autocommit_of_psycopg_writes_at_once_and_stays(dsn: str, observer: psycopg.Connection) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_on_blocking(connection, write("a"))
        assert bodies(observer) == ["a"]
        assert connection.autocommit
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


async def test_asyncpg_without_a_transaction_writes_at_once(dsn: str, observer: psycopg.Connection) -> None:
    connection = await asyncpg.connect(**parts(dsn, dbname="database"))
    await run_on(connection, write("a"))
    assert bodies(observer) == ["a"]
    assert not connection.is_in_transaction()
    await connection.close()


def test_autocommit_of_sqlalchemy_writes_at_once(dsn: str, observer: psycopg.Connection) -> None:
    with on_engine(engine("psycopg2", dsn).execution_options(isolation_level="AUTOCOMMIT")) as caller:
        caller.run(write("a"))
        assert bodies(observer) == ["a"]


def test_django_outside_of_atomic_writes_at_once(dsn: str, observer: psycopg.Connection) -> None:
    with django_on(dsn):
        run_on_blocking(django_connection, write("a"))
        assert bodies(observer) == ["a"]
        assert django_connection.get_autocommit()


def test_a_connection_of_psycopg_keeps_its_settings(dsn: str, observer: psycopg.Connection) -> None:
    with psycopg.connect(dsn, row_factory=dict_row, cursor_factory=psycopg.ClientCursor) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert run_on_blocking(connection, write("a")) == [Note(1, "a")]
        assert connection.row_factory is dict_row
        assert connection.cursor_factory is psycopg.ClientCursor
        assert connection.isolation_level is psycopg.IsolationLevel.REPEATABLE_READ
        assert connection.execute("select body from note").fetchall() == [{"body": "a"}]
        assert connection.execute("show transaction_isolation").fetchall() == [
            {"transaction_isolation": "repeatable read"}
        ]


class ShoutingDumper(adapt.Dumper):
    def dump(self, obj: Any) -> bytes:
        return str(obj).upper().encode()


def test_adapters_of_a_connection_of_psycopg_are_for_its_owner(dsn: str) -> None:
    question = ask("select %(price)s::numeric, %(name)s::text", price=Decimal("1.50"), name="ann")
    with on_psycopg(dsn) as caller:
        assert isinstance(caller.connection, psycopg.Connection)
        caller.connection.adapters.register_loader("numeric", FloatLoader)
        caller.connection.adapters.register_dumper(str, ShoutingDumper)
        [(price, name)] = caller.run(question)
        assert (typed(price), name) == (typed(Decimal("1.50")), "ann")
        assert caller.connection.execute(question.text, question.params).fetchone() == (1.5, "ANN")


def test_a_pipeline_of_the_caller_gives_its_rows(dsn: str, observer: psycopg.Connection) -> None:
    with on_psycopg(dsn) as caller:
        assert isinstance(caller.connection, psycopg.Connection)
        with caller.connection.pipeline():
            assert caller.run(write("a")) == [Note(1, "a")]
            assert caller.run(write_silently("b")) == []
            assert caller.run(read()) == ["a", "b"]
        with pytest.raises(psycopg.errors.UndefinedTable), caller.connection.pipeline():
            caller.run(ask("select 1 from nowhere"))
        caller.rollback()
        assert bodies(observer) == []


async def test_an_awaited_pipeline_gives_its_rows(dsn: str, observer: psycopg.Connection) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        async with connection.pipeline():
            assert await run_on(connection, write("a")) == [Note(1, "a")]
            assert await run_on(connection, write_silently("b")) == []
            assert await run_on(connection, read()) == ["a", "b"]
        await connection.rollback()
        assert bodies(observer) == []


def test_a_pipeline_in_autocommit_is_not_committed_by_us(dsn: str, observer: psycopg.Connection) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.pipeline():
        assert run_on_blocking(connection, write("a")) == [Note(1, "a")]
        assert bodies(observer) == []
    assert bodies(observer) == ["a"]


@pytest.mark.parametrize("type_name", ["json", "jsonb"])
def test_a_json_codec_of_asyncpg_does_not_encode_twice(dsn: str, type_name: str) -> None:
    with on_asyncpg(dsn) as caller:
        connection: Any = caller.connection
        assert caller.wait is not None
        caller.wait(
            connection.set_type_codec(type_name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        )
        assert caller.run(ask(f"select (%(a)s::{type_name})::text", a='{"b": 1}')) == [('{"b": 1}',)]
        many = ask(f"select x::text from unnest(%(a)s::{type_name}[]) x", a=['{"b": 1}', "2"])
        assert caller.run(many) == [('{"b": 1}',), ("2",)]
        assert caller.run(ask("select %(a)s::jsonpath::text = '$.\"b\"'", a="$.b")) == [(True,)]


async def test_a_record_class_of_asyncpg_is_for_its_owner(dsn: str) -> None:
    class Backwards(asyncpg.Record):  # type: ignore[misc]  # asyncpg ships no types
        def __iter__(self) -> Iterator[object]:
            columns: tuple[object, ...] = tuple(self.values())
            return reversed(columns)

    connection = await asyncpg.connect(**parts(dsn, dbname="database"), record_class=Backwards)
    assert tuple(await connection.fetchrow("select 1, 2")) == (2, 1)
    assert await run_on(connection, ask("select 1, 2")) == [(1, 2)]
    await connection.close()


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_options_of_an_engine_are_for_its_owner(dsn: str, observer: psycopg.Connection, driver: str) -> None:
    options = {"stream_results": True, "yield_per": 10, "no_parameters": True}
    with on_engine(engine(driver, dsn).execution_options(**options)) as caller:
        assert caller.run(write("a")) == [Note(1, "a")]
        assert caller.run(read()) == ["a"]
        assert caller.run(ask("select '100%%'")) == [("100%",)]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_options_of_an_awaited_connection_are_for_its_owner(
    dsn: str, observer: psycopg.Connection, driver: str
) -> None:
    with on_async_connection(driver, dsn) as caller:
        assert isinstance(caller.connection, AsyncConnection)
        assert caller.wait is not None
        caller.wait(caller.connection.execution_options(stream_results=True, yield_per=10))
        assert caller.run(write("a")) == [Note(1, "a")]


def test_a_session_is_not_flushed_and_commits_both(dsn: str, observer: psycopg.Connection) -> None:
    class Base(DeclarativeBase):
        pass

    class Written(Base):
        __tablename__ = "note"
        id: Mapped[int] = mapped_column(sa.Identity(always=True), primary_key=True)
        body: Mapped[str]

    maker = engine("psycopg", dsn)
    with Session(maker) as session:
        session.add(Written(body="of the caller"))
        assert run_on_blocking(session, read()) == []
        assert len(session.new) == 1
        run_on_blocking(session, write("ours"))
        session.commit()
    assert bodies(observer) == ["ours", "of the caller"]
    maker.dispose()


@pytest.mark.parametrize("server_side_binding", [False, True])
def test_django_without_time_zones_gives_whole_moments(dsn: str, server_side_binding: bool) -> None:
    with django_on(dsn, server_side_binding=server_side_binding), override_settings(USE_TZ=False):
        question = ask("select %(at)s::timestamptz, %(many)s::timestamptz[]", at=NOON, many=[NOON])
        [(at, many)] = run_on_blocking(django_connection, question)
        assert (typed(at), typed(many)) == (typed(NOON), typed([NOON]))
        with django_connection.cursor() as cursor:
            cursor.execute("select %s::timestamptz", [NOON])
            assert cursor.fetchone()[0].tzinfo is None


def test_a_time_zone_that_was_set_behind_djangos_back_is_no_trap(dsn: str) -> None:
    with django_on(dsn), transaction.atomic():
        with django_connection.cursor() as cursor:
            cursor.execute("set local time zone 'Asia/Tokyo'")
        [(at,)] = run_on_blocking(django_connection, ask("select %(at)s::timestamptz", at=NOON))
        assert typed(at) == typed(NOON)


def test_django_sees_our_queries(dsn: str) -> None:
    seen: list[str] = []

    def watch(execute: Any, text: str, *rest: Any) -> Any:
        seen.append(text)
        return execute(text, *rest)

    with django_on(dsn), django_connection.execute_wrapper(watch):
        with CaptureQueriesContext(django_connection) as captured:
            assert run_on_blocking(django_connection, ask("select %(a)s::int", a=5)) == [(5,)]
        assert seen == ["select %(a)s::int"]
        assert [query["sql"] for query in captured.captured_queries] == ["select 5::int"]


class Traced:
    """A proxy as tracing libraries put around a connection: it shows the class of what it wraps."""

    def __init__(self, wrapped: object) -> None:
        self.wrapped = wrapped

    def __getattr__(self, name: str) -> object:
        return getattr(self.wrapped, name)

    @property
    def __class__(self) -> type:
        return type(self.wrapped)

    @__class__.setter
    def __class__(self, other: type) -> None:
        raise NotImplementedError


def test_a_traced_connection_is_known_by_what_it_wraps(dsn: str) -> None:
    with on_psycopg(dsn) as caller, on_engine(engine("psycopg", dsn)) as other:
        for connection in (caller.connection, other.connection):
            assert run_on_blocking(Traced(connection), ask("select 1")) == [(1,)]
    with on_async_psycopg(dsn) as awaited, on_asyncpg(dsn) as another:
        for each in (awaited, another):
            assert each.wait is not None
            assert each.wait(run_on(Traced(each.connection), ask("select 1"))) == [(1,)]


def test_django_over_psycopg2_has_the_same_values(dsn: str) -> None:
    """In a process of its own: Django takes psycopg2 only where psycopg 3 cannot be imported."""
    script = Path(__file__).with_name("django_over_psycopg2.py")
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(script), dsn],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
