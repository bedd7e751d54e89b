"""What the launcher does inside Postgres: the database that users expect, and the password for TCP."""

import os
import secrets
import tempfile
import time
from pathlib import Path

import psycopg
from psycopg import sql

from holdfast.postgres.embedded.cluster import SUPERUSER
from holdfast.postgres.embedded.endpoint import Endpoint
from holdfast.postgres.embedded.failures import explained, start_failure
from holdfast.postgres.embedded.layout import Layout
from holdfast.postgres.embedded.postmaster import Postmaster

DATABASE = "holdfast"

_POLL_SECONDS = 0.05


def read_password(layout: Layout) -> str:
    """The password for TCP, made when it is first needed."""
    with explained(layout.root):
        if not layout.password.exists():
            descriptor, new = tempfile.mkstemp(dir=layout.root, prefix="password.new-")
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(24))
            Path(new).replace(layout.password)
        return layout.password.read_text("ascii")


def ensure_database(layout: Layout, endpoint: Endpoint, seconds: float) -> None:
    """Each time: the process that made the data may have died before it made the database."""
    try:
        with _connect(layout, endpoint, seconds) as connection:
            known = connection.execute("select 1 from pg_database where datname = %s", [DATABASE])
            if known.fetchone() is None:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
            if endpoint.has_tcp:
                _set_password(connection, read_password(layout))
    except psycopg.Error as error:
        raise start_failure(layout.root, str(error)) from error


def _connect(layout: Layout, endpoint: Endpoint, seconds: float) -> psycopg.Connection:
    """A running server may refuse for a while: it recovers from a crash, or all connections are taken."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return psycopg.connect(endpoint.dsn("postgres"), autocommit=True, connect_timeout=10)
        except psycopg.OperationalError:
            if Postmaster(layout).pid is None or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)


def _set_password(connection: psycopg.Connection, password: str) -> None:
    # Hashed here, so that the password itself reaches no log of statements.
    hashed = connection.pgconn.encrypt_password(password.encode(), SUPERUSER.encode(), b"scram-sha-256")
    connection.execute(
        sql.SQL("alter role {} password {}").format(sql.Identifier(SUPERUSER), sql.Literal(hashed.decode()))
    )
