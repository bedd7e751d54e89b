"""One private Postgres for the whole run; each test gets a database of its own, cloned from a template."""

import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged

# Nothing here has to survive a power cut; what must survive a crash is tested on servers of its own.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "on",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_prepared_transactions": "5",
    "autovacuum_naptime": "5s",
    # A connection that a killed worker was about to make keeps its database from being dropped for so long.
    "authentication_timeout": "15s",
}

_ROOM = 4 * 1024**3
_numbers = count(1)


def pytest_configure() -> None:
    """Started in the background of a script, a process ignores Ctrl-C, and so would all that tests start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_server() -> Iterator[EmbeddedServer]:
    """The Postgres that the tests share. Never stopped or reconfigured by a test."""
    with (
        TemporaryDirectory(prefix="holdfast-tests-", dir=_in_memory()) as directory,
        EmbeddedServer.start(directory, settings=SETTINGS, tcp=True) as server,
    ):
        yield server


def _in_memory() -> str | None:
    """Thousands of databases are copied and dropped: in memory where there is room, else on the disk."""
    memory = Path("/dev/shm")
    is_roomy = memory.is_dir() and os.access(memory, os.W_OK) and disk_usage(memory).free > _ROOM
    return str(memory) if is_roomy else None


@pytest.fixture(scope="session")
def server_dsn(shared_server: EmbeddedServer) -> str:
    """A DSN of a superuser, over TCP, so that a proxy can stand in front."""
    return make_conninfo(shared_server.tcp_dsn, dbname="postgres")


@pytest.fixture(scope="session")
def template(server_dsn: str) -> str:
    """The name of a migrated database that is copied for each test."""
    name = "migrated"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    with psycopg.connect(make_conninfo(server_dsn, dbname=name)) as connection:
        migrate(connection, Schema(), packaged())
    return name


@pytest.fixture
def dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A DSN of a fresh, migrated database."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("create database {} template {} strategy file_copy").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        yield make_conninfo(server_dsn, dbname=name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
