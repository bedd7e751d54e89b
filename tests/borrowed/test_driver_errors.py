"""Errors of the caller's driver reach the caller unchanged, and are not retried."""

import asyncpg
import django.db
import psycopg
import pytest
import sqlalchemy as sa
from django.db import connection as django_connection
from django.db import transaction

from borrowed.caller_connections import Caller, django_on
from borrowed.notes_table import read, write
from holdfast.errors import HoldfastError
from holdfast.postgres.borrowed import run_on_blocking

SAME_BODY_TWICE = (
    psycopg.errors.UniqueViolation,
    asyncpg.UniqueViolationError,
    sa.exc.IntegrityError,
    django.db.IntegrityError,
)

AFTER_AN_ERROR = (
    psycopg.errors.InFailedSqlTransaction,
    asyncpg.InFailedSQLTransactionError,
    sa.exc.DBAPIError,
    sa.exc.PendingRollbackError,
    django.db.InternalError,
    django.db.transaction.TransactionManagementError,
)


def test_a_refused_statement_is_the_drivers_error(caller: Caller) -> None:
    caller.run(write("a"))
    with pytest.raises(SAME_BODY_TWICE) as refused:
        caller.run(write("a"))
    assert not isinstance(refused.value, HoldfastError)


def test_a_transaction_that_has_failed_says_so(caller: Caller) -> None:
    caller.run(write("a"))
    with pytest.raises(SAME_BODY_TWICE):
        caller.run(write("a"))
    with pytest.raises(AFTER_AN_ERROR, match=r"aborted|rolled back") as refused:
        caller.run(read())
    assert not isinstance(refused.value, HoldfastError)


def test_a_savepoint_saves_the_transaction_from_an_error(caller: Caller) -> None:
    caller.run(write("a"))
    with pytest.raises(SAME_BODY_TWICE), caller.nested():
        caller.run(write("a"))
    caller.run(write("b"))
    assert caller.run(read()) == ["a", "b"]


def test_an_atomic_block_that_will_be_rolled_back_is_not_written_to(
    dsn: str, observer: psycopg.Connection
) -> None:
    with django_on(dsn), transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            run_on_blocking(django_connection, write("a"))


def test_a_connection_that_was_cut_is_not_the_callers_mistake(dsn: str, observer: psycopg.Connection) -> None:
    connection = psycopg.connect(dsn)
    observer.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
    for _ in ("while it is found out", "when it is known"):
        with pytest.raises(psycopg.OperationalError) as refused:
            run_on_blocking(connection, read())
        assert not isinstance(refused.value, HoldfastError)
        assert connection.broken
    connection.close()
