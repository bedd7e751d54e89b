"""Apply what a database lacks, all of it or nothing, however many processes try at once.

Everything happens in one transaction behind one advisory lock: a process that waited for another finds
nothing left to do, a failure or a kill leaves the database as it was.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.domain.backoff import Exponential
from holdfast.domain.schema_version import SchemaVersion
from holdfast.errors import ConnectionFailed, MigrationBlocked, WrongConnection
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.migrations import steps
from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.standing import Standing, list_applied, look
from holdfast.postgres.migrations.trouble import Trouble
from holdfast.postgres.schema import Schema

LOCK_TIMEOUT = timedelta(seconds=10)
ATTEMPTS = 5

# Between attempts those who queued behind our lock request get their turn.
_PAUSE = Exponential(timedelta(seconds=1), cap=timedelta(seconds=5))


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a call of `migrate` found and did. Nothing to do is a success with nothing applied."""

    before: SchemaVersion
    after: SchemaVersion
    applied: tuple[Migration, ...]

    @property
    def from_version(self) -> int:
        return self.before.version

    @property
    def to_version(self) -> int:
        return self.after.version


@contextmanager
def own_connection(dsn: Dsn) -> Iterator[psycopg.Connection]:
    """A connection for migrating only: no pool, and so no bound on waiting for one."""
    try:
        conn = psycopg.connect(dsn.conninfo("migrate"), autocommit=True)
    except psycopg.Error as error:
        reason = dsn.without_secrets(str(error))
        raise ConnectionFailed(f"no connection to {dsn.where}: {reason}", sqlstate=error.sqlstate) from error
    with conn:
        yield conn


def migrate(
    conn: psycopg.Connection,
    schema: Schema,
    migrations: Sequence[Migration],
    *,
    lock_timeout: timedelta = LOCK_TIMEOUT,
    attempts: int = ATTEMPTS,
    on_apply: Callable[[Migration], None] = lambda _: None,
) -> Migrated:
    """Bring a schema up to the last of `migrations`; `on_apply` hears of each before it runs.

    A lock that is not free within `lock_timeout` rolls everything back and is asked for again, so that those
    who queue behind our request never wait longer than that. A newer database that still serves this code is
    left alone; one that does not is refused.
    """
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        raise WrongConnection(
            "migrate commits a transaction of its own: give it a connection without an open transaction"
        )
    standing = look(conn, schema, migrations)
    standing.check_base()
    if not standing.pending:
        standing.judge()
        return Migrated(standing.found, standing.found, ())
    for attempt in count(1):
        try:
            return _apply(conn, schema, migrations, lock_timeout, on_apply)
        except MigrationBlocked:
            if attempt >= attempts:
                raise
        pause = _PAUSE.delay(attempt, random.random())  # noqa: S311 (jitter is no secret)
        time.sleep(pause.total_seconds())
    raise AssertionError("the loop has no end of its own")


def _apply(
    conn: psycopg.Connection,
    schema: Schema,
    migrations: Sequence[Migration],
    lock_timeout: timedelta,
    on_apply: Callable[[Migration], None],
) -> Migrated:
    trouble = Trouble(conn, schema, lock_timeout)
    with trouble.at_commit(), conn.transaction():
        with trouble.at_bootstrap():
            conn.execute(steps.settings(lock_timeout))
            conn.execute(steps.lock(schema))
            conn.execute(steps.bootstrap(schema))
        # What another process did while this one waited for the lock counts.
        before = Standing(schema, tuple(migrations), list_applied(conn, schema))
        before.check_base()
        for migration in before.pending:
            on_apply(migration)
            with trouble.at(migration):
                conn.execute(steps.change(schema, migration))
                conn.execute(steps.record(schema, migration))
        after = Standing(schema, tuple(migrations), list_applied(conn, schema))
        after.judge()
    return Migrated(before.found, after.found, before.pending)
