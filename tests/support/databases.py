"""A database for each test: copied before it is asked for and dropped behind its test, while tests run."""

import gc
import select
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

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
        self._template = sql.Identifier(template)
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
        create = sql.SQL("create database {} template {} strategy file_copy")
        self._making.begin(create.format(sql.Identifier(name), self._template), f"copying {name}")
        return name

    def _drop(self, name: str, test: str) -> None:
        drop = sql.SQL("drop database {} with (force)")
        self._dropping.begin(drop.format(sql.Identifier(name)), f"dropping {name}, left behind by {test}")


class Errand:
    """One statement at a time, sent now and waited for later. No thread is needed for that, which tests that
    count threads or fork would meet.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._what = ""

    def begin(self, statement: sql.Composed, what: str) -> None:
        self.wait()
        self._what = what
        self._connection.pgconn.send_query(statement.as_bytes(self._connection))

    def wait(self) -> None:
        pgconn = self._connection.pgconn
        if pgconn.transaction_status == TransactionStatus.ACTIVE and not _is_readable(pgconn.socket):
            # A connection whose making was cancelled is closed with its object, and until the server gives it
            # up no database can be dropped.
            gc.collect()
        for result in self._connection.wait(fetch_many(pgconn)):
            if result.status == ExecStatus.FATAL_ERROR:
                error = error_from_result(result)
                error.add_note(self._what)
                raise error


def _is_readable(socket: int, seconds: float = 0.1) -> bool:
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
