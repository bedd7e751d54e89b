"""Holds a worker's statements up where a test wants them, by locks of another session."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg

from acceptance.books import Books
from support.waiting import until

# A table and not a row: a claim waits for it before it takes its snapshot, so that one that had begun before
# the job was there, and waited, sees the job nevertheless.
NO_CLAIM = "lock table holdfast.lease in share mode"


@contextmanager
def locked(dsn: str, text: str, *params: object) -> Iterator[None]:
    """Another session holds these rows, or this lock, until the block ends."""
    with psycopg.connect(dsn) as connection:
        cursor = connection.execute(text.encode(), params)
        assert cursor.description is None or cursor.fetchall(), "there is nothing to lock"
        yield
        connection.rollback()


async def someone_waits(books: Books, for_what: str) -> None:
    """Until a statement of Holdfast's with this in its text waits for a lock."""
    question = (
        "select pid from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
        " and datname = current_database() and pid <> pg_backend_pid()"
    )
    await until(lambda: books.run(question, f"%holdfast.{for_what} %"), f"{for_what} waits")


@asynccontextmanager
async def held_up(dsn: str, books: Books, table: str, *, seconds: float) -> AsyncIterator[None]:
    """The renewal of a lease, whose row is the only one of this table, waits for so many seconds and gets
    through; the next one finds the row locked until the block ends.
    """
    lock = f"select 1 from {table} for no key update".encode()
    async with await psycopg.AsyncConnection.connect(dsn) as later:
        async with await psycopg.AsyncConnection.connect(dsn) as first:
            await first.execute(lock)
            await _waiting(books, 1, "the renewal waits")
            again = asyncio.create_task(later.execute(lock))
            await _waiting(books, 2, "we wait behind it")
            await asyncio.sleep(seconds)  # so much later comes the reply
            await first.rollback()
        await again
        yield
        await later.rollback()


async def _waiting(books: Books, count: int, what: str) -> None:
    question = (
        "select count(*) from pg_stat_activity"
        " where wait_event_type = 'Lock' and datname = current_database()"
    )
    await until(lambda: books.value(question) == count, what)
