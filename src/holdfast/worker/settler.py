"""Settles runs in batches: while one is under way the next one gathers, so a lone run waits for nobody."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from holdfast.domain.failure import Failure
from holdfast.domain.per_job import PerJob
from holdfast.domain.transition import Fail, Transition
from holdfast.errors import DatabaseError, StatementFailed
from holdfast.postgres.conversation import Conversation, hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.operators import history
from holdfast.storage.runs import Answer, Retention, Saving, Settled, Settlement, save, settle_surely
from holdfast.worker.held import Held, Stop

if TYPE_CHECKING:
    from holdfast.worker.context import Context

BATCH = 500
_RETRY_SECONDS = 0.2
_AGAIN_SECONDS = 5.0

_log = logging.getLogger("holdfast.worker")


class Ending(PerJob, frozen=True):
    """A run, what is to happen to its job, and who wants to know what became of it."""

    held: Held
    transition: Transition
    state: str | None
    context: "Context"
    error: BaseException | None
    then: Callable[["Ending", Answer, str | None], None]


class Settler:
    """Owns the endings that are not settled yet. A lost connection only delays them: twice is once."""

    def __init__(self, database: Database, schema: Schema, retention: Retention) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._gathering: list[Ending] = []
        self._saving: dict[int, Saving] = {}
        self._stirred = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def backlog(self) -> int:
        return len(self._gathering)

    def put(self, ending: Ending) -> None:
        if not self._gathering:
            self._idle.clear()
            self._stirred.set()
        self._gathering.append(ending)

    def put_saving(self, saving: Saving) -> None:
        """The newest progress of a run replaces one that was not written yet."""
        self._saving[saving.run] = saving
        self._stirred.set()

    async def drained(self) -> None:
        """Until everything that was put is settled."""
        await self._idle.wait()

    async def run(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            while self._gathering or self._saving:
                await self.once()
            self._idle.set()

    async def once(self) -> None:
        """Write one batch. What fails for the database's sake stays, in order, for the next one."""
        batch, self._gathering = self._gathering[:BATCH], self._gathering[BATCH:]
        savings, self._saving = self._saving, {}
        lost = [ending for ending in batch if ending.held.stop is Stop.LOST]
        if lost:
            # Not even tried: somebody else may have them.
            batch = [ending for ending in batch if ending.held.stop is not Stop.LOST]
            for ending in lost:
                ending.then(ending, "lost", None)
        try:
            await self._save(batch, savings)
            if batch:
                self._tell(batch, await self._settled(batch))
        except StatementFailed as error:
            await self._apart(batch, error)
        except DatabaseError as error:
            _log.debug("settling %d runs waits for the database: %s", len(batch), error)
            self._gathering = batch + self._gathering
            await asyncio.sleep(_RETRY_SECONDS)
        except asyncio.CancelledError:
            self._gathering = batch + self._gathering
            raise
        except Exception as error:  # noqa: BLE001  # of something that cannot even be sent; told below
            await self._apart(batch, error)

    async def _apart(self, batch: list[Ending], error: Exception) -> None:
        """Something in this batch cannot be written: settle each run by itself, so that one bad row never
        holds up the others, nor ends the worker with all that it runs. The bad one ends as failed, with the
        reason. If not even that can be written, such as without a right, it is kept: what was done is not
        done again as long as somebody knows that it was.
        """
        failure = Failure(f"its outcome could not be stored: {error}", "handler_error")
        for number, ending in enumerate(batch):
            for transition in (ending.transition, Fail(failure)):
                single = structs.replace(ending, transition=transition, state=None)
                try:
                    self._tell([single], await self._settled([single]))
                    break
                except Exception as problem:  # noqa: BLE001  # told, and the next way is tried
                    if isinstance(problem, DatabaseError) and not isinstance(problem, StatementFailed):
                        self._gathering = batch[number:] + self._gathering
                        return
                    _log.debug("run %d is settled otherwise: %s", ending.held.run, problem)
            else:
                run, job, seconds = ending.held.run, ending.held.job, _AGAIN_SECONDS
                _log.error("run %d of job %d cannot be settled, again in %g s: %s", run, job, seconds, error)
                asyncio.get_running_loop().call_later(seconds, self.put, ending)

    async def _save(self, batch: list[Ending], savings: dict[int, Saving]) -> None:
        for ending in batch:
            if ending.state is not None:
                held = ending.held
                earlier = savings.get(held.run)
                progress = earlier.progress if earlier else None
                savings[held.run] = Saving(held.worker, held.job, held.run, ending.state, progress)
        if savings:
            await self._database.run(save(self._schema, list(savings.values())))

    async def _settled(self, batch: list[Ending]) -> list[Settled]:
        """What became of each. Of one that was settled before (a reply was lost, or the handler's own commit
        came through after all) the ledger tells how.
        """
        answers = await hold(self._conversation(batch), self._database.run)
        return [await self._told(answer) if answer.answer == "already" else answer for answer in answers]

    async def _told(self, answer: Settled) -> Settled:
        entries = await self._database.run(history(self._schema, answer.job))
        outcome = next((e.outcome for e in entries if e.run == answer.run), None)
        return answer._replace(outcome=outcome)

    def _conversation(self, batch: list[Ending]) -> Conversation[list[Settled]]:
        return settle_surely(
            self._schema,
            [Settlement(e.held.worker, e.held.job, e.held.run, e.transition) for e in batch],
            retention=self._retention,
        )

    @staticmethod
    def _tell(batch: list[Ending], answers: list[Settled]) -> None:
        by_run = {answer.run: answer for answer in answers}
        for ending in batch:
            answer = by_run[ending.held.run]
            ending.then(ending, answer.answer, answer.outcome)
