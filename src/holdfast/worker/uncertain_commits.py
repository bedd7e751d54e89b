"""Asks the ledger what became of a handler's commit whose reply was lost, if the lease is lost as well: then
nothing may be settled, and no settle answers the question.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.domain.states import RunOutcome
from holdfast.errors import DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.job_lookup import history

_SOONEST_SECONDS = 0.2
_LATEST_SECONDS = 5.0
_PATIENCE_SECONDS = 600.0


class UncertainCommits:
    """Every run gets its entry in the ledger: by that commit, or by the leader that takes the run away. Until
    then the commit may still be under way on the server.
    """

    def __init__(self, database: Database, schema: Schema) -> None:
        self._database = database
        self._schema = schema
        self._loop = asyncio.get_running_loop()
        self._asking: set[asyncio.Task[None]] = set()
        self._hurry = asyncio.Event()

    def ask(self, job: int, run: int, then: Callable[[RunOutcome | None], None]) -> None:
        """`then` gets the outcome of this run, or None if it could not be learned."""
        task = self._loop.create_task(self._ask(job, run, then))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def hurry(self) -> None:
        """The worker stops: what is not answered by the next question stays unknown."""
        self._hurry.set()

    async def ended(self) -> None:
        """Wait until every question is answered."""
        while self._asking:
            await asyncio.wait(self._asking)

    async def _ask(self, job: int, run: int, then: Callable[[RunOutcome | None], None]) -> None:
        until = self._loop.time() + _PATIENCE_SECONDS
        pause = _SOONEST_SECONDS
        outcome: RunOutcome | None = None
        while outcome is None and self._loop.time() < until:
            is_last = self._hurry.is_set()
            outcome = await self._outcome(job, run)
            if outcome is None:
                if is_last:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._hurry.wait()
                pause = min(pause * 2, _LATEST_SECONDS)
        then(outcome)

    async def _outcome(self, job: int, run: int) -> RunOutcome | None:
        with suppress(DatabaseError):  # an outage: the next question is answered, or the one after it
            entries = await self._database.run(history(self._schema, job))
            return next((entry.outcome for entry in entries if entry.run == run), None)
        return None
