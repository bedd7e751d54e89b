"""One private Postgres for the whole run; each test gets a database of its own, cloned from a template."""

import os
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

_numbers = count(1)


@pytest.fixture(scope="session")
def server_dsn() -> str:
    """A DSN of a superuser on the server that the tests share."""
    return os.environ["HOLDFAST_TEST_DSN"]


@pytest.fixture(scope="session")
def template(server_dsn: str) -> str:
    """The name of a migrated database that is copied for each test."""
    name = f"template_{os.getpid()}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return name


@pytest.fixture
def dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A DSN of a fresh, migrated database."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
        )
        yield make_conninfo(server_dsn, dbname=name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
