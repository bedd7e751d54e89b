"""One database for all of these tests and a fresh table for each: many connections, little data."""

import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from borrowed.caller_connections import CALLERS, Caller
from borrowed.notes_table import TABLE


@pytest.fixture(scope="session")
def borrowed_dsn(server_dsn: str) -> Iterator[str]:
    """Its sessions are in a zone with half hours and summer time, so that nothing is right by chance."""
    database = f"borrowed_{os.getpid()}"
    name = sql.Identifier(database)
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(name))
        connection.execute(sql.SQL("alter database {} set timezone = 'America/St_Johns'").format(name))
        yield make_conninfo(server_dsn, dbname=database)
        connection.execute(sql.SQL("drop database {} with (force)").format(name))


@pytest.fixture
def dsn(borrowed_dsn: str) -> str:
    return borrowed_dsn


@pytest.fixture
def observer(dsn: str) -> Iterator[psycopg.Connection]:
    """Another session, which sees what is committed."""
    with psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=10s") as connection:
        connection.execute("drop table if exists note")
        connection.execute(TABLE)
        yield connection


@pytest.fixture(params=list(CALLERS))
def caller(request: pytest.FixtureRequest, dsn: str, observer: psycopg.Connection) -> Iterator[Caller]:
    """A caller with an open transaction, on each kind of connection."""
    with CALLERS[request.param](dsn) as caller:
        yield caller
