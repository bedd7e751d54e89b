"""A connection to a database that is not ours, or not the one this code was written for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast.domain.job import NewJob, Policy
from holdfast.domain.retention import Retention
from holdfast.errors import (
    CodeOutdated,
    MissingPrivilege,
    SchemaNotFound,
    SchemaOutdated,
    StatementFailed,
    WrongConnection,
)
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.conversation import hold, hold_blocking
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage import jobs, runs
from holdfast.storage.fit import check_fit
from holdfast.storage.migrations import known_version
from support.engine import SCHEMA

ELSEWHERE = Schema("elsewhere")
ENQUEUE = jobs.enqueue(ELSEWHERE, [NewJob(Policy("mail"))], notify=True)
SAYS = (
    r'lacks what Holdfast needs in schema "elsewhere" \(.*elsewhere.* does not exist\), so nothing was '
    r'written: run "holdfast migrate --schema elsewhere" on it, or pass a connection'
)


def url(dsn: str, driver: str) -> str:
    given = {key: quote(str(value), safe="") for key, value in conninfo_to_dict(dsn).items()}
    return "postgresql+{driver}://{user}:{password}@{host}:{port}/{dbname}".format(driver=driver, **given)


def test_psycopg_on_a_database_without_our_schema(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        with pytest.raises(SchemaNotFound, match=SAYS) as refused, connection.transaction():
            run_on_blocking(connection, ENQUEUE)
        assert isinstance(refused.value.__cause__, psycopg.errors.UndefinedTable)
        assert (refused.value.schema, refused.value.sqlstate) == ("elsewhere", "42P01")
        connection.execute("select 1")


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_sqlalchemy_on_a_database_without_our_schema(dsn: str, driver: str) -> None:
    engine = sa.create_engine(url(dsn, driver))
    with pytest.raises(SchemaNotFound, match=SAYS), engine.begin() as connection:
        run_on_blocking(connection, ENQUEUE)
    engine.dispose()


async def test_awaited_connections_on_a_database_without_our_schema(dsn: str) -> None:
    engine = create_async_engine(url(dsn, "asyncpg"))
    with pytest.raises(SchemaNotFound, match=SAYS):
        async with engine.begin() as connection:
            await run_on(connection, ENQUEUE)
    await engine.dispose()
    async with await psycopg.AsyncConnection.connect(dsn) as awaited:
        with pytest.raises(SchemaNotFound, match=SAYS):
            await run_on(awaited, ENQUEUE)
    bare = await asyncpg.connect(url(dsn, "x").replace("+x", ""))
    with pytest.raises(SchemaNotFound, match=SAYS):
        await run_on(bare, ENQUEUE)
    await bare.close()


@pytest.mark.parametrize(
    ("change", "statement"),
    [
        (
            "alter table holdfast.job drop column origin cascade",
            jobs.enqueue(SCHEMA, [NewJob(Policy("m"))], notify=True),
        ),
        ("drop table holdfast.saved cascade", runs.claim(SCHEMA, worker=1, queue="q", kinds=["k"], limit=1)),
        ("drop type holdfast.outcome cascade", runs.settle(SCHEMA, [], retention=Retention())),
    ],
    ids=["a column", "a table", "a type"],
)
def test_a_part_that_is_missing_is_told_like_the_whole(dsn: str, change: str, statement: Any) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(change)
        with pytest.raises(SchemaNotFound, match='run "holdfast migrate"'):
            run_on_blocking(connection, statement)


@contextmanager
def a_stranger(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A role without any rights on our schema."""
    name = f"stranger_{conninfo_to_dict(dsn)['dbname']}"
    role = sql.Identifier(name)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'secret'").format(role))
        with psycopg.connect(make_conninfo(dsn, user=name, password="secret"), autocommit=True) as connection:
            yield connection
        admin.execute(sql.SQL("drop role {}").format(role))


def test_a_role_without_rights_is_told_what_to_ask_for(dsn: str) -> None:
    with a_stranger(dsn) as connection:
        with pytest.raises(MissingPrivilege, match='its owner must grant usage on schema "holdfast"'):
            run_on_blocking(connection, jobs.enqueue(SCHEMA, [NewJob(Policy("mail"))], notify=True))
        with pytest.raises(MissingPrivilege):
            hold_blocking(check_fit(SCHEMA), lambda statement: run_on_blocking(connection, statement))


def test_errors_that_say_nothing_of_the_schema_stay_the_drivers(dsn: str) -> None:
    wrong = runs.claim(SCHEMA, worker=1, queue="q", kinds=["k"], limit=1 << 40)
    with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.NumericValueOutOfRange):
        run_on_blocking(connection, wrong)


@pytest.mark.requirement("S0.14")
def test_an_error_of_postgres_says_which_statement_met_it(dsn: str) -> None:
    with BlockingDatabase(dsn) as database:
        with pytest.raises(StatementFailed, match=r"^claim: .*out of range"):
            database.run(runs.claim(SCHEMA, worker=1, queue="q", kinds=["k"], limit=1 << 40))
        with pytest.raises(SchemaNotFound, match=r"\(enqueue_one: .*elsewhere.* does not exist\)"):
            database.run(ENQUEUE)


async def test_our_own_connections_say_what_to_do_on_a_database_without_our_schema(dsn: str) -> None:
    with BlockingDatabase(dsn) as blocking:
        with pytest.raises(SchemaNotFound, match=SAYS) as refused:
            blocking.run(ENQUEUE)
        with pytest.raises(SchemaNotFound, match=SAYS), blocking.transaction() as transaction:
            transaction.run(ENQUEUE)
    async with Database(dsn) as database:
        with pytest.raises(StatementFailed, match=SAYS):
            await database.run(ENQUEUE)
        with pytest.raises(StatementFailed, match=SAYS):
            async with database.transaction() as awaited:
                await awaited.run(ENQUEUE)
    assert (refused.value.schema, refused.value.sqlstate) == ("elsewhere", "42P01")


def test_a_closed_connection_is_told_before_anything_is_sent(dsn: str) -> None:
    connection = psycopg.connect(dsn)
    connection.close()
    with pytest.raises(
        WrongConnection, match="is closed: pass the connection that your transaction is open on"
    ):
        run_on_blocking(connection, ENQUEUE)


def test_a_database_of_this_version_fits(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        hold_blocking(check_fit(SCHEMA), lambda statement: run_on_blocking(connection, statement))


async def test_a_database_without_our_schema_is_outdated_at_nothing(dsn: str) -> None:
    engine = create_async_engine(url(dsn, "asyncpg"))
    async with engine.connect() as connection:
        with pytest.raises(SchemaOutdated, match='"elsewhere" has not been created') as refused:
            await hold(check_fit(ELSEWHERE), lambda statement: run_on(connection, statement))
    await engine.dispose()
    assert (refused.value.found, refused.value.needed) == (0, known_version())


def test_a_database_that_is_behind_or_ahead_says_which_side_has_to_move(dsn: str) -> None:
    ahead = (
        "insert into holdfast.migration (version, name, checksum, min_code, applied_at)"
        " values (999, 'far', '', 999, now())"
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(ahead)
        with pytest.raises(
            CodeOutdated, match=r"needs code that knows schema 999 or later.*upgrade Holdfast"
        ):
            hold_blocking(check_fit(SCHEMA), lambda statement: run_on_blocking(connection, statement))
        connection.execute("delete from holdfast.migration")
        with pytest.raises(SchemaOutdated, match='run "holdfast migrate"'):
            hold_blocking(check_fit(SCHEMA), lambda statement: run_on_blocking(connection, statement))
