"""Settles runs in batches. While one batch is written the next one gathers, so a lone run never waits."""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import structs

from holdfast.domain.failure import Failure
from holdfast.domain.fingerprint import identified
from holdfast.domain.limits import Breaker
from holdfast.domain.retention import Retention
from holdfast.domain.states import RunOutcome
from holdfast.domain.transition import CompleteJob, FailJob, Transition
from holdfast.errors import StatementFailed
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.postgres.translate import is_datas_fault
from holdfast.producer.wake_ups import GATE
from holdfast.storage.job_lookup import history
from holdfast.storage.limit_rules import Spending, close, spend
from holdfast.storage.runs import (
    Answer,
    Saving,
    Settled,
    SettledAndHandedOn,
    Settlement,
    save,
    settle_surely,
)
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.handler_requests import CloseLimit, error_behind

if TYPE_CHECKING:
    from holdfast.worker.context import Context

BATCH = 500
_RETRY_SECONDS = 0.2
_AGAIN_SECONDS = 5.0
# At the front of a gate lie the dead rows of those who have passed: too many to step over for every run.
_FRONT_SECONDS = 0.02

_log = logging.getLogger("holdfast.worker")


class RunEnding(Settlement, frozen=True):
    """A settlement, with what its worker needs afterwards: `then` gets the result."""

    claimed: ClaimedRun
    context: "Context"
    then: Callable[["RunEnding", Answer, RunOutcome | None], None]
    state: str | None = None
    error: BaseException | None = None

    @property
    def is_spared(self) -> bool:
        limits = self.claimed.kind.limits
        if self.error is None or limits is None:
            return False
        error = error_behind(self.error)
        breakers = [
            limit.spec.breaker for limit in limits.declared.values() if limit.spec.breaker is not None
        ]
        return bool(breakers) and not any(_counts(breaker, error) for breaker in breakers)

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


def _counts(breaker: Breaker, error: BaseException) -> bool:
    try:
        return breaker.counts(error)
    except Exception:  # noqa: BLE001  # a user's function may do anything
        _log.exception("the function that decides which errors a breaker counts has failed: it is counted")
        return True


class Settler:
    """Owns the endings that are not settled yet. After a lost connection they are sent again: settling twice
    is the same as once.
    """

    def __init__(
        self,
        database: Database,
        schema: Schema,
        retention: Retention,
        wake: Callable[[set[str]], None] = lambda _: None,
    ) -> None:
        """`wake` gets queues that have got jobs by the permits of others, and GATE."""
        self._database = database
        self._schema = schema
        self._retention = retention
        self._wake = wake
        self._front_at = 0.0
        self._gathering: list[RunEnding] = []
        self._saving: dict[int, Saving] = {}
        self._spending: list[Spending] = []
        self._postponed: dict[int, RunEnding] = {}
        self._size = BATCH
        # How many batches of each size were settled: for metrics, read by another thread.
        self.batches: dict[int, int] = {}
        self._failures = FailureLog(_log, "settling runs")
        self._loop = asyncio.get_running_loop()
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

    def put_spending(self, spending: Spending) -> None:
        """What a handler has spent of a rate. Called in any thread: a list takes it, and the loop writes
        it.
        """
        self._spending.append(spending)
        self._loop.call_soon_threadsafe(self._stirred.set)

    async def drained(self) -> None:
        """Wait until everything that was put is settled."""
        await self._idle.wait()

    async def run(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            while self._gathering or self._saving or self._spending:
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
            await self._spend()
            if batch:
                await self._close_limits(batch)
                answers = await self._settled(batch)
                self.batches[len(batch)] = self.batches.get(len(batch), 0) + 1
                self._tell(batch, answers)
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

    async def _spend(self) -> None:
        while self._spending:
            spending = self._spending[0]
            if not await self._database.run(spend(self._schema, spending)):
                _log.warning(
                    'job %d spends of the limit "%s", which no code has declared: nothing is counted',
                    spending.job,
                    spending.limit,
                )
            self._spending.pop(0)

    async def _close_limits(self, batch: list[RunEnding]) -> None:
        """Of handlers that ask for it: before their jobs come to the gate again, so that they wait there."""
        for ending in batch:
            if isinstance(request := ending.error, CloseLimit) and request.limit is not None:
                closing = close(
                    self._schema,
                    request.limit,
                    key=request.key,
                    length=request.retry_after,
                    reason=f"the handler of job {ending.job} asked for it",
                    job=ending.job,
                )
                if not await self._database.run(closing):
                    _log.warning(
                        'job %d closes the limit "%s", which no code has declared: nothing is closed',
                        ending.job,
                        request.limit,
                    )

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
        is_limited = any(ending.claimed.row.is_limited for ending in batch)
        from_front = is_limited and monotonic() >= self._front_at
        settling = settle_surely(
            self._schema,
            batch,
            retention=self._retention,
            is_limited=is_limited,
            from_front=from_front,
        )
        answers = await hold(settling, self._database.run)
        if is_limited:
            if from_front:
                self._front_at = monotonic() + _FRONT_SECONDS
            self._wake_heirs(answers)
        return [await self._told(answer) if answer.answer == "already" else answer for answer in answers]

    def _wake_heirs(self, answers: list[Settled]) -> None:
        handed_on = [answer for answer in answers if isinstance(answer, SettledAndHandedOn)]
        names = {queue for answer in handed_on for queue in answer.woken}
        if any(answer.is_knocking for answer in handed_on):
            names.add(GATE)
        if names:
            self._wake(names)

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
