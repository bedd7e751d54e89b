"""Statements of a worker held up where a test wants them, by locks of somebody else's."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from acceptance.books import Books, until

_IS_QUIET = """
select 1 from pg_stat_activity where datname = current_database() and application_name = 'holdfast/worker'
having bool_and(state = 'idle' and state_change < clock_timestamp() - interval '300 ms')
"""


def is_quiet(books: Books) -> bool:
    """Whether the connections for claims and settles have not been used for a while."""
    return bool(books.run(_IS_QUIET))


@contextmanager
def locked(dsn: str, text: str, *params: object) -> Iterator[None]:
    """Somebody else holds these rows, or this lock, until the block ends."""
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
