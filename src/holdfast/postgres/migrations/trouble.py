"""What it means for the reader when a step of a migration fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import psycopg

from holdfast.domain.duration import compact
from holdfast.errors import (
    ConnectionLost,
    DatabaseError,
    HoldfastError,
    MigrationBlocked,
    MigrationFailed,
    MissingPrivilege,
    StatementFailed,
)
from holdfast.postgres.migrations import steps
from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.version import primary_message
from holdfast.postgres.schema import Schema
from holdfast.postgres.sqlstate import FORBIDDEN, LOCKED_OUT

_ADVICE = (
    'run "holdfast migrate" as the role that owns the schema (or may create it), '
    'or hand the output of "holdfast migrate --sql" to a role that may'
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Turns what psycopg raises into our errors, by the step at which it was raised."""

    conn: psycopg.Connection
    schema: Schema
    lock_timeout: timedelta

    @contextmanager
    def at_bootstrap(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            waited = f"another process was still migrating it after {compact(self.lock_timeout)}"
            raise self._common(error, waited) or unforeseen(self.conn, error) from error

    @contextmanager
    def at(self, migration: Migration) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            waited = f"{migration}.sql waited longer than {compact(self.lock_timeout)} for a lock"
            raise self._common(error, waited) or self._failed(error, migration) from error

    @contextmanager
    def at_commit(self) -> Iterator[None]:
        """Around the whole transaction: what a deferred constraint or a lost reply can still do to it."""
        try:
            yield
        except psycopg.Error as error:
            lost = "it lost against another transaction"
            raise self._common(error, lost) or unforeseen(self.conn, error) from error

    def _common(self, error: psycopg.Error, waited: str) -> HoldfastError | None:
        if self.conn.closed:
            return unforeseen(self.conn, error)
        if error.sqlstate in LOCKED_OUT:
            return MigrationBlocked(schema=self.schema.name, reason=waited)
        if error.sqlstate == FORBIDDEN:
            reason = primary_message(error)
            return MissingPrivilege(
                schema=self.schema.name, reason=reason, advice=_ADVICE, sqlstate=error.sqlstate
            )
        return None

    def _failed(self, error: psycopg.Error, migration: Migration) -> MigrationFailed:
        reason = _located(error, steps.change(self.schema, migration))
        return MigrationFailed(version=migration.version, name=f"{migration}.sql", reason=reason)


def unforeseen(conn: psycopg.Connection, error: psycopg.Error) -> DatabaseError:
    """A failure that says nothing about migrations."""
    if conn.closed:
        return ConnectionLost(
            f"the connection was lost while migrating ({primary_message(error)}): "
            'run "holdfast migrate" again, it finds out how far this one came',
            sqlstate=error.sqlstate,
        )
    return StatementFailed(f"nothing was migrated: {_sentence(error)}", sqlstate=error.sqlstate)


def _located(error: psycopg.Error, text: str) -> str:
    """Postgres' sentence with the line, when it says where. A line of the text is that line of the file."""
    position = error.diag.statement_position
    where = f"line {1 + text.count(chr(10), 0, int(position) - 1)}: " if position else ""
    return where + _sentence(error)


def _sentence(error: psycopg.Error) -> str:
    parts = (primary_message(error), error.diag.message_detail, error.diag.message_hint)
    return ". ".join(part.rstrip(".") for part in parts if part)
