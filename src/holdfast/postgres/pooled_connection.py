"""A connection as our pools keep it: it knows its age, and ends as a task that is cancelled must."""

import asyncio
from typing import Any, Self

import psycopg
from psycopg.rows import TupleRow

from holdfast.postgres.availability import Availability
from holdfast.postgres.reply_timeouts import Ear
from holdfast.postgres.session_settings import Life
from holdfast.postgres.translate import one_line


class PooledConnection(psycopg.AsyncConnection[TupleRow]):
    """A connection of psycopg's that knows its age."""

    is_holdfast = True
    life: Life
    ear: Ear
    raw: psycopg.AsyncRawCursor[TupleRow]
    """For our own statements, one after the other: it knows the types of those before."""

    @classmethod
    async def connect(  # type: ignore[override]  # only called by the pool, which passes our own arguments on
        cls, conninfo: str = "", *, availability: Availability, **kwargs: Any
    ) -> Self:
        try:
            return await super().connect(conninfo, **kwargs)
        except psycopg.Error as error:
            availability.lost(one_line(error))
            raise

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        """A task that is cancelled has the server cancel its query. If the connection is cut meanwhile it
        would hear of that instead, send the statement again, and never end.
        """
        task = asyncio.current_task()
        heard = task.cancelling() if task else 0
        try:
            return await super().wait(*args, **kwargs)
        except psycopg.Error as error:
            if task and task.cancelling() > heard:
                raise asyncio.CancelledError from error
            raise
