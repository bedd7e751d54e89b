"""The private server that everything is measured on, its databases, and how large the measures are."""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks.session import SCHEMA
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import migrate
from holdfast.storage.migrations import packaged

_TEMPLATE = "migrated"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything. The defaults are those of the targets."""

    seconds: float = 60
    long_runs: int = 3
    window: float = 10
    blocked: int = 200_000
    promotions: int = 400_000
    waiting: int = 2_000_000
    rounds: int = 9
    batches: int = 25
    wal_jobs: int = 50_000
    scopes: int = 10_000
    kills: int = 10

    @classmethod
    def tiny(cls) -> "Scale":
        """Large enough to run every line, too small to mean anything."""
        return cls(
            seconds=2,
            long_runs=1,
            window=1,
            blocked=500,
            promotions=500,
            waiting=1_500,
            rounds=1,
            batches=2,
            wal_jobs=400,
            scopes=1_500,
            kills=1,
        )


class Bench:
    """A server with default durability: fsync and synchronous_commit on."""

    def __init__(self, server: EmbeddedServer, scale: Scale) -> None:
        self._server = server
        self._numbers = count(1)
        self._began = time.monotonic()
        self.scale = scale

    @classmethod
    @contextmanager
    def start(cls, scale: Scale) -> Iterator["Bench"]:
        with (
            tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory,
            EmbeddedServer.start(directory) as server,
        ):
            bench = cls(server, scale)
            bench.say("server started")
            bench._make_template()
            yield bench

    @contextmanager
    def database(self) -> Iterator[str]:
        """The DSN of a fresh, migrated database. Dropped at the end, so that autovacuum leaves it alone."""
        name = f"bench_{next(self._numbers)}"
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL("create database {} template {} strategy file_copy").format(
                    sql.Identifier(name), sql.Identifier(_TEMPLATE)
                )
            )
            # What the measure before left behind is written now, not while the next one is timed.
            connection.execute("checkpoint")
            try:
                yield self._server.dsn_for(name)
            finally:
                connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", file=sys.stderr, flush=True)

    @property
    def log(self) -> Path:
        """What the server says."""
        return self._server.log

    def machine(self) -> str:
        """In general terms, for the head of the table."""
        names = ("server_version", "fsync", "synchronous_commit", "shared_buffers")
        with psycopg.connect(self._server.dsn) as connection:
            found = [connection.execute("select current_setting(%s)", (name,)).fetchone() for name in names]
        version, fsync, commit, buffers = (str(row[0]) for row in found if row is not None)
        return f"Postgres {version}, fsync {fsync}, synchronous_commit {commit}, shared_buffers {buffers}"

    def _make_template(self) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(_TEMPLATE)))
        with psycopg.connect(self._server.dsn_for(_TEMPLATE)) as connection:
            migrate(connection, SCHEMA, packaged())
