"""Settles runs in batches. While one batch is written the next one gathers, so a lone run never waits."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from holdfast.domain.failure import Failure
from holdfast.domain.fingerprint import identified
from holdfast.domain.retention import Retention
from holdfast.domain.states import RunOutcome
from holdfast.domain.transition import CompleteJob, FailJob, Transition
from holdfast.errors import StatementFailed
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.postgres.translate import is_datas_fault
from holdfast.storage.job_lookup import history
from holdfast.storage.runs import Answer, Saving, Settled, Settlement, save, settle_surely
from holdfast.worker.claimed_run import ClaimedRun, Stop

if TYPE_CHECKING:
    from holdfast.worker.context import Context

BATCH = 500
_RETRY_SECONDS = 0.2
_AGAIN_SECONDS = 5.0

_log = logging.getLogger("holdfast.worker")


class RunEnding(Settlement, frozen=True):
    """A settlement, with what its worker needs afterwards: `then` gets the result."""

    claimed: ClaimedRun
    context: "Context"
    then: Callable[["RunEnding", Answer, RunOutcome | None], None]
    state: str | None = None
    error: BaseException | None = None

    @classmethod
    def of(  # noqa: PLR0917  # made for every job, where keywords cost
        cls,
        claimed: ClaimedRun,
        transition: Transition,
        context: "Context",
        then: Callable[["RunEnding", Answer, RunOutcome | None], None],
        state: str | None = None,
        error: BaseException | None = None,
    ) -> "RunEnding":
        return cls(claimed.worker, claimed.job, claimed.run, transition, claimed, context, then, state, error)


class Settler:
    """Owns the endings that are not settled yet. After a lost connection they are sent again: settling twice
    is the same as once.
    """

    def __init__(self, database: Database, schema: Schema, retention: Retention) -> None:
        self._database = database
        self._schema = schema
        self._retention = retention
        self._gathering: list[RunEnding] = []
        self._saving: dict[int, Saving] = {}
        self._postponed: dict[int, RunEnding] = {}
        self._size = BATCH
        self._failures = FailureLog(_log, "settling runs")
        self._stirred = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def backlog(self) -> int:
        return len(self._gathering) + len(self._postponed)

    def put(self, ending: RunEnding) -> None:
        if not self._gathering:
            self._idle.clear()
            self._stirred.set()
        self._gathering.append(ending)

    def put_saving(self, saving: Saving) -> None:
        """The newest progress of a run replaces an older one that is not written yet."""
        self._saving[saving.run] = saving
        self._stirred.set()

    async def drained(self) -> None:
        """Wait until everything that was put is settled."""
        await self._idle.wait()

    async def run(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            while self._gathering or self._saving:
                await self.once()
            if not self._postponed:
                self._idle.set()

    async def once(self) -> None:
        """Write one batch. What the database cannot take now stays for the next one."""
        batch, self._gathering = self._gathering[: self._size], self._gathering[self._size :]
        savings, self._saving = self._saving, {}
        lost = [ending for ending in batch if ending.claimed.stop is Stop.LOST]
        if lost:
            # Not even tried: another worker may run them.
            batch = [ending for ending in batch if ending.claimed.stop is not Stop.LOST]
            for ending in lost:
                ending.then(ending, "lost", None)
        try:
            await self._save(batch, savings)
            if batch:
                self._tell(batch, await self._settled(batch))
        except asyncio.CancelledError:
            self._gathering = batch + self._gathering
            raise
        except Exception as error:  # noqa: BLE001  # told; nothing that was done is given up
            if _may_be_one_row(error):
                await self._apart(batch, savings)
            else:
                await self._wait(batch, savings, error)
        else:
            self._size = min(self._size * 2, BATCH)
            if not self._postponed:
                self._failures.worked()

    async def _wait(self, batch: list[RunEnding], savings: dict[int, Saving], error: Exception) -> None:
        """An outage: everything is kept. The next batch is smaller, since a large one may take too long; a
        run that fails alone goes behind the others.
        """
        self._failures.failed(error)
        is_alone, self._size = self._size == 1, max(self._size // 2, 1)
        self._gathering = self._gathering + batch if is_alone else batch + self._gathering
        self._saving = savings | self._saving
        await asyncio.sleep(_RETRY_SECONDS)

    async def _apart(self, batch: list[RunEnding], savings: dict[int, Saving]) -> None:
        """The database refuses something in this batch. Write each run alone, so that one bad row neither
        holds up the others nor ends the worker.
        """
        left = list(batch)
        try:
            while left:
                await self._alone(left[0], savings.get(left[0].run))
                savings.pop(left.pop(0).run, None)
            while savings:
                run, saving = next(iter(savings.items()))
                await self._kept(saving)
                del savings[run]
        except asyncio.CancelledError:
            self._gathering = left + self._gathering
            raise
        except Exception as error:  # noqa: BLE001  # an outage in the middle of it; told
            await self._wait(left, savings, error)

    async def _alone(self, ending: RunEnding, saving: Saving | None) -> None:
        """A result that the database refuses as data is dropped; any other such ending fails its run, with
        the reason. Anything else is kept and sent again: the work is done, and must not be done again because
        its end could not be written.
        """
        try:
            if saving is not None:
                await self._kept(saving)
            try:
                self._tell([ending], await self._settled([ending]))
            except Exception as problem:
                if not is_datas_fault(problem):
                    raise
                storable = structs.replace(ending, transition=_storable(ending, problem), state=None)
                self._tell([storable], await self._settled([storable]))
        except Exception as problem:
            if not _may_be_one_row(problem):
                raise
            self._postpone(ending, problem)

    async def _kept(self, saving: Saving) -> None:
        """A state that the database refuses as data is dropped, and its run ends without it. Progress is
        dropped when it is refused for any reason, since newer progress follows.
        """
        try:
            await self._database.run(save(self._schema, [saving]))
        except Exception as problem:
            is_dropped = _may_be_one_row(problem) if saving.state is None else is_datas_fault(problem)
            if not is_dropped:
                raise
            _log.warning("state or progress of run %d is not kept: %s", saving.run, problem)

    def _postpone(self, ending: RunEnding, problem: Exception) -> None:
        run, job, seconds = ending.run, ending.job, _AGAIN_SECONDS
        if self._failures.failed(problem):
            _log.error("run %d of job %d cannot be settled, again in %g s: %s", run, job, seconds, problem)
        self._postponed[run] = ending
        asyncio.get_running_loop().call_later(seconds, self._again, run)

    def _again(self, run: int) -> None:
        self.put(self._postponed.pop(run))

    async def _save(self, batch: list[RunEnding], savings: dict[int, Saving]) -> None:
        for ending in batch:
            if ending.state is not None:
                claimed = ending.claimed
                earlier = savings.get(claimed.run)
                progress = earlier.progress if earlier else None
                savings[claimed.run] = Saving(
                    claimed.worker, claimed.job, claimed.run, ending.state, progress
                )
        if savings:
            await self._database.run(save(self._schema, list(savings.values())))

    async def _settled(self, batch: list[RunEnding]) -> list[Settled]:
        """What became of each run. If one was settled before, because a reply was lost or the handler's own
        commit came through after all, the ledger has its outcome.
        """
        settling = settle_surely(self._schema, batch, retention=self._retention)
        answers = await hold(settling, self._database.run)
        return [await self._told(answer) if answer.answer == "already" else answer for answer in answers]

    async def _told(self, answer: Settled) -> Settled:
        entries = await self._database.run(history(self._schema, answer.job))
        outcome = next((e.outcome for e in entries if e.run == answer.run), None)
        return answer._replace(outcome=outcome)

    @staticmethod
    def _tell(batch: list[RunEnding], answers: list[Settled]) -> None:
        by_run = {answer.run: answer for answer in answers}
        for ending in batch:
            answer = by_run[ending.run]
            ending.then(ending, answer.answer, answer.outcome)


def _storable(ending: RunEnding, problem: Exception) -> Transition:
    """What is written of a run whose ending the database refuses. A success stays one without its result."""
    if isinstance(ending.transition, CompleteJob) and ending.transition.result is not None:
        _log.warning("the result of run %d of job %d is dropped: %s", ending.run, ending.job, problem)
        return CompleteJob(None, "result_unencodable")
    failure = Failure(f"its outcome could not be stored: {problem}", "handler_error")
    return FailJob(identified(failure, ending.claimed.row.kind))


def _may_be_one_row(error: Exception) -> bool:
    """Whether one row of a batch may be the cause, so that the others can be written without it. If the
    server is unable, sending each row alone would only fail once for each.
    """
    return isinstance(error, StatementFailed) or is_datas_fault(error)
