"""The connections for operators' questions: few, apart from those that enqueue, each answer within a bound.
So a dashboard, or a list that takes long, never keeps a program from enqueueing.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Final, TypeVar

from holdfast.errors import QuestionTimeout, ServerUnable
from holdfast.per_loop import PerLoop
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.conversation import Conversation, hold, hold_blocking
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions, PoolSettings
from holdfast.postgres.sqlstate import CANCELLED
from holdfast.producer.producer import Reach
from holdfast.storage.fit import check_fit

R = TypeVar("R")

_MOST: Final = 3
_IDLE: Final = timedelta(minutes=1)
_PURPOSE: Final = "questions"


class QuestionConnections:
    """Opened by the first question, and closed again soon after the last one."""

    def __init__(self, reach: Callable[[], Reach]) -> None:
        """`reach` blocks: it may start the private server."""
        self._reach = reach
        self._loops = PerLoop(self._open)
        self._lock = threading.Lock()
        self._blocking: BlockingDatabase | None = None

    async def hold(self, conversation: Conversation[R]) -> R:
        database = await self._loops.get()
        with _within(database.settings):
            async with database.transaction() as transaction:
                return await hold(conversation, transaction.run)

    def hold_sync(self, conversation: Conversation[R]) -> R:
        database = self._opened_blocking()
        with _within(database.settings), database.transaction() as transaction:
            return hold_blocking(conversation, transaction.run)

    @property
    def are_open_on_a_loop(self) -> bool:
        return bool(self._loops)

    async def close(self) -> None:
        """What this event loop has opened."""
        database = await self._loops.take()
        if database is not None:
            await database.close()

    def close_blocking(self) -> None:
        with self._lock:
            database, self._blocking = self._blocking, None
        if database is not None:
            database.close()

    async def _open(self) -> Database:
        import asyncio

        reach = await asyncio.to_thread(self._reach)
        options, session = _chosen(reach)
        database = Database(
            reach.dsn, options, purpose=_PURPOSE, session=session, availability=reach.availability
        )
        await database.open()
        try:
            await hold(check_fit(reach.schema), database.run)
        except BaseException:
            await database.close()
            raise
        return database

    def _opened_blocking(self) -> BlockingDatabase:
        reach = self._reach()
        with self._lock:
            if self._blocking is None:
                options, session = _chosen(reach)
                database = BlockingDatabase(
                    reach.dsn, options, purpose=_PURPOSE, session=session, availability=reach.availability
                )
                try:
                    hold_blocking(check_fit(reach.schema), database.run)
                except BaseException:
                    database.close()
                    raise
                self._blocking = database
            return self._blocking


def _chosen(reach: Reach) -> tuple[PoolOptions, dict[str, str]]:
    settings = PoolSettings.choose(reach.options, reach.dsn.options)
    options = replace(
        reach.options,
        pool_min_conns=0,
        pool_max_conns=min(_MOST, settings.pool_max_conns),
        pool_max_conn_idle_time=min(_IDLE, settings.pool_max_conn_idle_time),
    )
    limit = settings.question_timeout // timedelta(milliseconds=1)
    # To compile a plan takes longer than any question that is answered in time.
    return options, {"statement_timeout": str(limit), "jit": "off"}


@contextmanager
def _within(settings: PoolSettings) -> Iterator[None]:
    """Postgres says the same of a statement that somebody else has cancelled: then it was not so late."""
    bound = settings.question_timeout
    began = monotonic()
    try:
        yield
    except ServerUnable as error:
        if error.sqlstate == CANCELLED and bound and monotonic() - began >= bound.total_seconds():
            raise QuestionTimeout(bound, sqlstate=error.sqlstate) from error
        raise
