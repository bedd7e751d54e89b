"""A private Postgres in ./.holdfast/demo, and in it a database that is new each time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged

DIRECTORY = Path(".holdfast/demo")

_LEFT = """
select datname from pg_database d where datname like 'shop\\_%'
   and not exists (select from pg_stat_activity a where a.datname = d.datname)
"""


@contextmanager
def new_database() -> Iterator[str]:
    """The DSN of a migrated database, dropped at the end; what a killed demo has left, at the start."""
    name = f"shop_{os.getpid()}"
    with EmbeddedServer.start(DIRECTORY) as server:
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            for (left,) in conn.execute(_LEFT).fetchall():
                conn.execute(sql.SQL("drop database if exists {}").format(sql.Identifier(left)))
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        dsn = server.dsn_for(name)
        try:
            with psycopg.connect(dsn) as conn:
                migrate(conn, Schema(), packaged())
            yield dsn
        finally:
            with psycopg.connect(server.dsn, autocommit=True) as conn:
                conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
