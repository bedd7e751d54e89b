"""A caller's open connection, of each kind, with that library's own verbs around it.

Every verb blocks, those of awaited connections too, so that one test body serves both colours; and Django
refuses to work in a thread with a running event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg
import django
import psycopg
import sqlalchemy as sa
from django.conf import settings
from django.db import connection as django_connection
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.statement import Statement

T = TypeVar("T")


@dataclass
class Caller:
    connection: object
    commit: Callable[[], object]
    rollback: Callable[[], object]
    nested: Callable[[], AbstractContextManager[object]]
    """A savepoint, rolled back to when the block raises."""
    wait: Callable[[Coroutine[Any, Any, Any]], Any] | None = None
    """Given when the connection is awaited."""

    def run(self, statement: Statement[T]) -> list[T]:
        if self.wait is None:
            return run_on_blocking(self.connection, statement)
        rows: list[T] = self.wait(run_on(self.connection, statement))
        return rows


def parts(dsn: str, **renamed: str) -> dict[str, Any]:
    return {renamed.get(key, key): value for key, value in conninfo_to_dict(dsn).items()}


@contextmanager
def on_psycopg(dsn: str, **options: Any) -> Iterator[Caller]:
    with psycopg.connect(dsn, **options) as connection:
        yield Caller(connection, connection.commit, connection.rollback, connection.transaction)
        connection.rollback()


@contextmanager
def on_engine(engine: sa.Engine) -> Iterator[Caller]:
    try:
        with engine.connect() as connection:
            yield Caller(connection, connection.commit, connection.rollback, connection.begin_nested)
    finally:
        engine.dispose()


@contextmanager
def on_session(engine: sa.Engine) -> Iterator[Caller]:
    try:
        with Session(engine) as session:
            yield Caller(session, session.commit, session.rollback, session.begin_nested)
    finally:
        engine.dispose()


@contextmanager
def on_scoped_session(engine: sa.Engine) -> Iterator[Caller]:
    session = scoped_session(sessionmaker(engine))
    try:
        yield Caller(session, session.commit, session.rollback, session.begin_nested)
    finally:
        session.remove()
        engine.dispose()


def engine(driver: str, dsn: str, **options: Any) -> sa.Engine:
    return sa.create_engine(f"postgresql+{driver}://", connect_args={**parts(dsn), **options})


@dataclass
class Awaiting:
    """Waits for whatever the caller of an awaited connection does."""

    runner: asyncio.Runner

    def __call__(self, awaitable: Awaitable[T]) -> T:
        async def wait() -> T:
            return await awaitable

        return self.runner.run(wait())

    def verb(self, function: Callable[[], Awaitable[object]]) -> Callable[[], object]:
        return lambda: self(function())

    def block(
        self, make: Callable[[], AbstractAsyncContextManager[object]]
    ) -> Callable[[], AbstractContextManager[object]]:
        @contextmanager
        def block() -> Iterator[object]:
            context = make()
            entered = self(context.__aenter__())
            try:
                yield entered
            except BaseException as error:
                if not self(context.__aexit__(type(error), error, error.__traceback__)):
                    raise
            else:
                self(context.__aexit__(None, None, None))

        return block


@contextmanager
def awaiting() -> Iterator[Awaiting]:
    with asyncio.Runner() as runner:
        yield Awaiting(runner)


@contextmanager
def on_async_psycopg(dsn: str, **options: Any) -> Iterator[Caller]:
    with awaiting() as wait:
        connection = wait(psycopg.AsyncConnection.connect(dsn, **options))
        yield Caller(
            connection,
            wait.verb(connection.commit),
            wait.verb(connection.rollback),
            wait.block(connection.transaction),
            wait,
        )
        wait(connection.close())


@contextmanager
def on_asyncpg(dsn: str) -> Iterator[Caller]:
    with awaiting() as wait:
        connection = wait(asyncpg.connect(**parts(dsn, dbname="database")))
        try:
            yield from _in_asyncpg_transaction(wait, connection)
        finally:
            wait(connection.close())


@contextmanager
def on_asyncpg_pool(dsn: str) -> Iterator[Caller]:
    with awaiting() as wait:
        pool = wait(asyncpg.create_pool(**parts(dsn, dbname="database"), min_size=1, max_size=1))
        connection = wait(pool.acquire())
        try:
            yield from _in_asyncpg_transaction(wait, connection)
        finally:
            wait(pool.release(connection))
            wait(pool.close())


def _in_asyncpg_transaction(wait: Awaiting, connection: Any) -> Iterator[Caller]:
    begun = connection.transaction()
    wait(begun.start())
    yield Caller(
        connection,
        wait.verb(begun.commit),
        wait.verb(begun.rollback),
        wait.block(connection.transaction),
        wait,
    )
    if connection.is_in_transaction():
        wait(begun.rollback())


@contextmanager
def _on_async_engine(
    driver: str, dsn: str, make: Callable[[AsyncEngine], Any]
) -> Iterator[tuple[Awaiting, Any]]:
    arguments = parts(dsn, dbname="database") if driver == "asyncpg" else parts(dsn)
    with awaiting() as wait:
        engine = create_async_engine(f"postgresql+{driver}://", connect_args=arguments)
        connection = make(engine)
        try:
            yield wait, connection
        finally:
            wait(connection.close())
            wait(engine.dispose())


@contextmanager
def on_async_connection(driver: str, dsn: str) -> Iterator[Caller]:
    with _on_async_engine(driver, dsn, AsyncEngine.connect) as (wait, connection):
        wait(connection.start())
        yield _of_sqlalchemy(wait, connection)


@contextmanager
def on_async_session(driver: str, dsn: str) -> Iterator[Caller]:
    with _on_async_engine(driver, dsn, AsyncSession) as (wait, session):
        yield _of_sqlalchemy(wait, session)


@contextmanager
def on_async_scoped_session(driver: str, dsn: str) -> Iterator[Caller]:
    def make(engine: AsyncEngine) -> async_scoped_session[AsyncSession]:
        return async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 0)

    with _on_async_engine(driver, dsn, make) as (wait, session):
        yield _of_sqlalchemy(wait, session)


@contextmanager
def inside_run_sync(driver: str, dsn: str) -> Iterator[Caller]:
    """A blocking connection over an awaited driver, as SQLAlchemy gives it to a function in run_sync."""

    class Inside(Caller):
        def run(self, statement: Statement[T]) -> list[T]:
            assert isinstance(self.connection, AsyncConnection)
            assert self.wait is not None
            rows: list[T] = self.wait(self.connection.run_sync(run_on_blocking, statement))
            return rows

    with on_async_connection(driver, dsn) as caller:
        yield Inside(**vars(caller))


def _of_sqlalchemy(wait: Awaiting, connection: Any) -> Caller:
    return Caller(
        connection,
        wait.verb(connection.commit),
        wait.verb(connection.rollback),
        wait.block(connection.begin_nested),
        wait,
    )


def configure_django() -> None:
    """Once in a process; which database it talks to is set again by `django_on`."""
    if not settings.configured:
        settings.configure(
            USE_TZ=True,
            TIME_ZONE="America/St_Johns",
            DATABASES={
                "default": {"ENGINE": "django.db.backends.postgresql"},
                "light": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
            },
        )
        django.setup()


@contextmanager
def django_on(dsn: str, **options: Any) -> Iterator[None]:
    configure_django()
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    given = parts(dsn, **names)
    own = {key: given.pop(key, "") for key in names.values()}
    connections.settings["default"].update(own, OPTIONS={**given, **options})
    try:
        yield
    finally:
        connections.close_all()
        del connections["default"]


@contextmanager
def on_django(dsn: str, **options: Any) -> Iterator[Caller]:
    with django_on(dsn, **options):
        block = transaction.atomic()
        block.__enter__()

        def rollback() -> None:
            transaction.set_rollback(True)
            block.__exit__(None, None, None)

        yield Caller(
            django_connection, lambda: block.__exit__(None, None, None), rollback, transaction.atomic
        )
        if connections["default"].in_atomic_block:
            rollback()


CALLERS: dict[str, Callable[[str], AbstractContextManager[Caller]]] = {
    "psycopg": on_psycopg,
    "psycopg, rows as dicts": lambda dsn: on_psycopg(dsn, row_factory=dict_row),
    "psycopg, client cursor": lambda dsn: on_psycopg(dsn, cursor_factory=psycopg.ClientCursor),
    "async psycopg": on_async_psycopg,
    "async psycopg, rows as dicts": lambda dsn: on_async_psycopg(dsn, row_factory=dict_row),
    "async psycopg, client cursor": lambda dsn: on_async_psycopg(
        dsn, cursor_factory=psycopg.AsyncClientCursor
    ),
    "asyncpg": on_asyncpg,
    "asyncpg, from a pool": on_asyncpg_pool,
    "Connection, psycopg": lambda dsn: on_engine(engine("psycopg", dsn)),
    "Connection, psycopg client cursor": lambda dsn: on_engine(
        engine("psycopg", dsn, cursor_factory=psycopg.ClientCursor)
    ),
    "Connection, psycopg2": lambda dsn: on_engine(engine("psycopg2", dsn)),
    "Connection, asyncpg in run_sync": lambda dsn: inside_run_sync("asyncpg", dsn),
    "Session, psycopg": lambda dsn: on_session(engine("psycopg", dsn)),
    "Session, psycopg2": lambda dsn: on_session(engine("psycopg2", dsn)),
    "scoped_session, psycopg": lambda dsn: on_scoped_session(engine("psycopg", dsn)),
    "AsyncConnection, asyncpg": lambda dsn: on_async_connection("asyncpg", dsn),
    "AsyncConnection, psycopg": lambda dsn: on_async_connection("psycopg", dsn),
    "AsyncSession, asyncpg": lambda dsn: on_async_session("asyncpg", dsn),
    "AsyncSession, psycopg": lambda dsn: on_async_session("psycopg", dsn),
    "async_scoped_session, asyncpg": lambda dsn: on_async_scoped_session("asyncpg", dsn),
    "Django": on_django,
    "Django, binding in the server": lambda dsn: on_django(dsn, server_side_binding=True),
}
