"""Tells the database that a run began late, in a child process that was slow to start: its timeout counts
from then on, for the leader too.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from holdfast.errors import DatabaseClosed, DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.runs import postpone
from holdfast.worker.claimed_run import ClaimedRun

_PARTING_SECONDS = 5


class LeasePostponer:
    """`watch` starts the worker's own clock for the run. Requests that are still unsent when the block ends
    are dropped, because the run ends with the worker.
    """

    def __init__(self, database: Database, schema: Schema, watch: Callable[[ClaimedRun], None]) -> None:
        self._database = database
        self._schema = schema
        self._watch = watch
        self._telling: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._telling:
            for task in self._telling:
                task.cancel()
            await asyncio.wait(self._telling, timeout=_PARTING_SECONDS)

    def postpone(self, claimed: ClaimedRun, seconds: float | None) -> None:
        """A child has begun the run, or is slow to start it and gets so many seconds more."""
        self._watch(claimed)
        if seconds is not None:
            statement = postpone(
                self._schema,
                worker=claimed.worker,
                job=claimed.job,
                run=claimed.run,
                lasting=timedelta(seconds=seconds),
            )
            telling = asyncio.get_running_loop().create_task(self._tell(statement))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _tell(self, statement: Statement[int]) -> None:
        """If the database does not hear it, the leader's grace has to do."""
        with suppress(DatabaseError, DatabaseClosed):
            await self._database.run(statement)
