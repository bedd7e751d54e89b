from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from borrowed.callers import CALLERS, Caller
from borrowed.notes import TABLE


def move_far_from_utc(connection: psycopg.Connection) -> None:
    """Sessions of this database that begin after this are in a zone with half hours and summer time."""
    name = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("alter database {} set timezone = 'America/St_Johns'").format(name))


@pytest.fixture
def observer(dsn: str) -> Iterator[psycopg.Connection]:
    """Someone else, who sees what is committed."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLE)
        move_far_from_utc(connection)
        yield connection


@pytest.fixture(params=list(CALLERS))
def caller(request: pytest.FixtureRequest, dsn: str, observer: psycopg.Connection) -> Iterator[Caller]:
    """Someone with a transaction open, on each kind of connection."""
    with CALLERS[request.param](dsn) as caller:
        yield caller


@pytest.fixture(scope="session")
def tableless_dsn(server_dsn: str, template: str) -> Iterator[str]:
    """One database for all who only ask: making one for each would be most of their time."""
    name = f"{template}_tableless"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        dsn = make_conninfo(server_dsn, dbname=name)
        with psycopg.connect(dsn) as inside:
            move_far_from_utc(inside)
        yield dsn
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(params=list(CALLERS))
def asking(request: pytest.FixtureRequest, tableless_dsn: str) -> Iterator[Caller]:
    """Someone with a transaction open, on each kind of connection, who writes nothing."""
    with CALLERS[request.param](tableless_dsn) as caller:
        yield caller
