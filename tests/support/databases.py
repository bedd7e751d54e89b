"""A database for each test: copied before it is asked for and dropped behind its test, while tests run."""

import gc
import select
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many
from psycopg.pq import ExecStatus, TransactionStatus


class Copies:
    """Copies of one template. The next is being made while the last is in use."""

    def __init__(self, dsn: str, template: str, making: "Errand", dropping: "Errand") -> None:
        self._dsn = dsn
        self._template = template
        self._making = making
        self._dropping = dropping
        self._names = (f"test_{number}" for number in count(1))
        self._next = self._make()

    @classmethod
    @contextmanager
    def of(cls, dsn: str, template: str) -> Iterator["Copies"]:
        with (
            psycopg.connect(dsn, autocommit=True) as making,
            psycopg.connect(dsn, autocommit=True) as dropping,
        ):
            copies = cls(dsn, template, Errand(making), Errand(dropping))
            yield copies
            copies._making.wait()
            copies._drop(copies._next, "no test")
            copies._dropping.wait()

    @contextmanager
    def lent(self, test: str) -> Iterator[str]:
        """The DSN of a copy for one test, which is named when it has left what cannot be dropped."""
        self._making.wait()
        name, self._next = self._next, self._make()
        yield make_conninfo(self._dsn, dbname=name)
        self._drop(name, test)

    def _make(self) -> str:
        name = next(self._names)
        self._making.begin(_copied(self._making.connection, self._template, name), f"copying {name}")
        return name

    def _drop(self, name: str, test: str) -> None:
        drop = sql.SQL("drop database {} with (force)")
        self._dropping.begin(drop.format(sql.Identifier(name)), f"dropping {name}, left behind by {test}")


@contextmanager
def a_copy(server_dsn: str, template: str, name: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a copy that the tests of a module share."""
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(_copied(admin, template, name))
        with psycopg.connect(make_conninfo(server_dsn, dbname=name), autocommit=True) as connection:
            yield connection
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _copied(connection: psycopg.Connection[Any], template: str, name: str) -> sql.Composed:
    create = sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
    # Before 15 files were always copied, and there was no word for it.
    return create + sql.SQL(" strategy file_copy" if connection.info.server_version >= 150000 else "")


class Errand:
    """One statement at a time, sent now and waited for later. No thread is needed for that, which tests that
    count threads or fork would meet.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self._what = ""

    def begin(self, statement: sql.Composed, what: str) -> None:
        self.wait()
        self._what = what
        self.connection.pgconn.send_query(statement.as_bytes(self.connection))

    def wait(self) -> None:
        pgconn = self.connection.pgconn
        if pgconn.transaction_status == TransactionStatus.ACTIVE and not _is_readable(pgconn.socket):
            # A connection whose making was cancelled is closed with its object, and until the server gives it
            # up no database can be dropped.
            gc.collect()
        for result in self.connection.wait(fetch_many(pgconn)):
            if result.status == ExecStatus.FATAL_ERROR:
                error = error_from_result(result)
                error.add_note(self._what)
                raise error


def _is_readable(socket: int, seconds: float = 0.1) -> bool:
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
