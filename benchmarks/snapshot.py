"""Transactions that stay open while others work: what vacuum, and so every queue, suffers from."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from benchmarks.session import SCHEMA, new_jobs
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.storage import jobs


@contextmanager
def pinned(dsn: str) -> Iterator[None]:
    """Somebody holds a snapshot in REPEATABLE READ: no row that dies from now on can be removed."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select count(*) from pg_class")
        yield
        connection.rollback()


@contextmanager
def enqueueing(dsn: str) -> Iterator[None]:
    """A caller has enqueued a job and does not commit: its segment of the ring stays locked."""
    with psycopg.connect(dsn) as connection:
        run_on_blocking(connection, jobs.enqueue(SCHEMA, new_jobs(1), notify=False))
        yield
        connection.rollback()
