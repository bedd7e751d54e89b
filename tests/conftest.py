"""One private Postgres for the whole run; each test gets a database of its own, cloned from a template."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged
from support.databases import Copies

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

# The machine is shared: how long one example takes says nothing. A failure must be told in full.
settings.register_profile(
    "unhurried", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """What the tests start must behave as if started from a shell, whatever environment this process has."""
    # Started in the background of a script, a process ignores Ctrl-C, and so would its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hundreds of interpreters are started: without bytecode each of them would compile the package.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from support.xdist_groups import Spreading

    return Spreading(config, log)


def pytest_collection_finish() -> None:
    """What was imported stays to the end: the collector, which some tests call, need not look through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[EmbeddedServer]:
    """The Postgres that the tests share. Never stopped or reconfigured by a test."""
    with (
        TemporaryDirectory(prefix="holdfast-tests-", dir=_in_memory()) as directory,
        EmbeddedServer.start(directory, settings=SETTINGS, tcp=True) as server,
    ):
        _let_in_quickly(server)
        _copy_quickly(server)
        yield server


def _let_in_quickly(server: EmbeddedServer) -> None:
    """Thousands of connections are made, and the usual 4,096 rounds of hashing are half of what one costs."""
    with psycopg.connect(server.dsn) as connection:
        if connection.info.server_version >= 160000:
            user, password = (conninfo_to_dict(server.tcp_dsn)[key] for key in ("user", "password"))
            connection.execute("set scram_iterations = 1")
            connection.execute(
                sql.SQL("alter role {} password {}").format(sql.Identifier(str(user)), sql.Literal(password))
            )


def _copy_quickly(server: EmbeddedServer) -> None:
    """Each test has a copy of the template, of hundreds of files: where it can, the system copies them."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        known = connection.execute(
            "select 'clone' = any(enumvals) from pg_settings where name = 'file_copy_method'"
        ).fetchone()
        if known == (True,):
            connection.execute("alter system set file_copy_method = clone")
            connection.execute("select pg_reload_conf()")


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


@pytest.fixture(scope="session")
def copies(server_dsn: str, template: str) -> Iterator[Copies]:
    with Copies.of(server_dsn, template) as copies:
        yield copies


@pytest.fixture
def dsn(copies: Copies, request: pytest.FixtureRequest) -> Iterator[str]:
    """A DSN of a fresh, migrated database."""
    with copies.lent(request.node.nodeid) as dsn:
        yield dsn
