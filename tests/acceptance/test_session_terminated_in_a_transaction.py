"""A session that the server ends while a handler's own block is open on it: an outage, and no mistake of the
handler's. Nothing is written, and the job is tried again.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from django.db import connections, transaction
from django.utils.connection import ConnectionProxy

from acceptance.books import Books
from acceptance.in_process_workers import working
from acceptance.own_connections import (
    Way,
    asyncpg_connection,
    by_async_sqlalchemy,
    by_blocking_psycopg,
    by_psycopg,
    by_sqlalchemy,
    django_own,
)
from borrowed.caller_connections import configure_django, django_on
from holdfast import App, Context, Retry
from support.waiting import until

WAYS = {
    "ours": None,
    "psycopg": by_psycopg(),
    "psycopg in autocommit": by_psycopg(autocommit=True),
    "blocking psycopg": by_blocking_psycopg(),
    "asyncpg": Way(asyncpg_connection),
    "asyncpg's session": by_async_sqlalchemy("asyncpg"),
    "asyncpg's connection of SQLAlchemy": by_async_sqlalchemy("asyncpg", "connection"),
    "psycopg's session": by_async_sqlalchemy("psycopg"),
    "blocking psycopg's session": by_sqlalchemy("psycopg"),
    "psycopg2's session": by_sqlalchemy("psycopg2"),
    "psycopg2's connection": by_sqlalchemy("psycopg2", "connection"),
    "django": Way(plain=django_own),
}
HOLDERS = """
select pid from pg_stat_activity
where state = 'idle in transaction' and datname = current_database() and query like 'insert into effect%'
"""


@pytest.fixture(autouse=True)
def django(dsn: str) -> Iterator[None]:
    configure_django()
    with django_on(dsn):
        yield
        assert connections["default"].connection is None, "used in threads only"


def terminate(dsn: str) -> None:
    """End the one session that is in a transaction, and be sure that it has ended."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        [(pid,)] = admin.execute(HOLDERS).fetchall()
        admin.execute("select pg_terminate_backend(%s, 10000)", [pid])


def savepoint(connection: Any) -> Any:
    """A block of the handler's own, in the words of its library."""
    if isinstance(connection, ConnectionProxy):
        return transaction.atomic()
    return connection.begin_nested() if hasattr(connection, "begin_nested") else connection.transaction()


@dataclass(frozen=True)
class Payment:
    """A job that writes in a block, whose session is terminated at the first attempt."""

    dsn: str
    way: Way | None
    how: str

    def __call__(self, app: App, retry: Retry) -> Any:
        function: Any = self.ours
        if self.way is not None:
            function = self.awaited if self.way.awaited else self.plain
        return app.job(name="pay", retry=retry)(function)

    async def ours(self, ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await self._inside(ctx, conn, conn.execute)

    async def awaited(self, ctx: Context) -> None:
        assert self.way is not None
        assert self.way.awaited is not None
        async with self.way.awaited(self.dsn) as (connection, run), ctx.transaction(connection):
            await self._inside(ctx, connection, run)

    async def _inside(self, ctx: Context, connection: Any, run: Callable[[str], Any]) -> None:
        await run(written(ctx))
        if ctx.attempt == 1:
            with suppress(*self._caught):
                async with savepoint(connection) if self._is_nested else nullcontext():
                    await run(written(ctx))
                    terminate(self.dsn)
                    if self._is_noticed:
                        await run("select 1")

    def plain(self, ctx: Context) -> None:
        assert self.way is not None
        assert self.way.plain is not None
        with self.way.plain(self.dsn) as (connection, run), ctx.transaction(connection):
            run(written(ctx))
            if ctx.attempt == 1:
                with suppress(*self._caught), savepoint(connection) if self._is_nested else nullcontext():
                    run(written(ctx))
                    terminate(self.dsn)
                    if self._is_noticed:
                        run("select 1")

    @property
    def _is_noticed(self) -> bool:
        return self.how != "unnoticed"

    @property
    def _is_nested(self) -> bool:
        return self.how == "caught around a savepoint"

    @property
    def _caught(self) -> tuple[type[Exception], ...]:
        return (Exception,) if self.how.startswith("caught") else ()


def written(ctx: Context) -> str:
    return f"insert into effect (job, run) values ({ctx.job.id}, {ctx.fencing_token})"


@pytest.mark.parametrize("how", ["raised", "caught", "caught around a savepoint", "unnoticed"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_session_that_was_terminated_inside_a_block_is_tried_again(
    dsn: str, books: Books, way: Way | None, how: str
) -> None:
    """Whichever statement meets the error, the handler's own or Holdfast's, `on` does not end the job."""
    retry = Retry(max_attempts=2, backoff="0s", on=KeyError)
    async with App(dsn) as app:
        pay = Payment(dsn, way, how)(app, retry)
        async with working(app):
            handle = await pay.enqueue()
            await until(books.finished, "it ends")
    told = books.run(
        "select outcome::text, error from holdfast.ledger where job = %s order by run", handle.id
    )
    assert [outcome for outcome, _ in told] == ["retried", "succeeded"], told
    books.assert_effects_once(1)
