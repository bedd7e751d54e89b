"""`ctx.transaction()`: the handler's writes, its follow-up jobs and the job's completion in one commit."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any

from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.errors import InvalidInput, LeaseLost
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.borrowed.outage import is_outage_of
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.postgres.thread_transactions import ThreadTransactions
from holdfast.storage.runs import Settled, Settlement, settle
from holdfast.worker.claimed_run import ClaimedRun, CommittedEnd, Stop
from holdfast.worker.committing_block import committing, committing_blocking

NO_RESULT = "completed_in_transaction"


def mark_outage(error: BaseException) -> None:
    """An error of the connection's own library reaches the handler as it is. The mark tells `attempt_outcome`
    that the begin or the commit met a database in trouble, and not a mistake of the handler's.
    """
    if is_outage_of(error):
        with suppress(AttributeError):
            error.holdfast_outage = True  # type: ignore[attr-defined]  # read by attempt_outcome


@contextmanager
def _outages_marked() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        mark_outage(error)
        raise


class Completion:
    """Entered by `async with` or by `with`. The job is completed as the last statement before the commit, so
    the fence is checked when the writes are done, and its lock lasts no longer than the commit.
    """

    def __init__(
        self,
        claimed: ClaimedRun,
        connection: object,
        *,
        database: Database,
        blocking: ThreadTransactions,
        schema: Schema,
        retention: Retention,
    ) -> None:
        self._claimed = claimed
        self._connection = connection
        self._database = database
        self._blocking = blocking
        self._schema = schema
        self._retention = retention
        self._async_stack = AsyncExitStack()
        self._stack = ExitStack()

    async def __aenter__(self) -> Any:
        async with AsyncExitStack() as stack:
            stack.enter_context(self._alone())
            block = committing(self._connection, self._database, self._complete)
            with _outages_marked():
                connection = await stack.enter_async_context(block)
            self._async_stack = stack.pop_all()
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._async_stack.__aexit__(kind, error, trace)
            return
        with self._completing():
            await self._async_stack.aclose()

    async def _complete(self, connection: object) -> None:
        self._check("commit")
        self._judge(await run_on(connection, self._statement()))

    def __enter__(self) -> Any:
        with ExitStack() as stack:
            stack.enter_context(self._alone())
            block = committing_blocking(self._connection, self._blocking, self._complete_blocking)
            with _outages_marked():
                connection = stack.enter_context(block)
            self._stack = stack.pop_all()
        return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._completing():
            self._stack.close()

    def _complete_blocking(self, connection: object) -> None:
        self._check("commit")
        self._judge(run_on_blocking(connection, self._statement()))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One block at a time: a block inside another would complete the job, and the fence would then refuse
        the writes of the outer one.
        """
        self._check("begin a transaction")
        if self._claimed.is_in_transaction:
            raise InvalidInput(
                "a transaction of this run is open: use its connection, as one commit completes the job"
            )
        self._claimed.is_in_transaction = True
        try:
            yield
        finally:
            self._claimed.is_in_transaction = False

    @contextmanager
    def _completing(self) -> Iterator[None]:
        """From before the commit removes the lease until it is known whether it did."""
        claimed = self._claimed
        claimed.is_completing = True
        try:
            with _outages_marked():
                yield
        except BaseException:
            claimed.is_completing = False
            raise
        claimed.committed = CommittedEnd("succeeded", None if claimed.result is None else claimed.result.flag)

    def _check(self, doing: str) -> None:
        if self._claimed.stop is Stop.LOST:
            raise self._lost(doing)
        if self._claimed.committed is not None:
            raise InvalidInput("this job is completed already: ctx.transaction() can be used once in a run")

    def _judge(self, answers: list[Settled]) -> None:
        if answers[0].answer != "settled":
            raise self._lost("commit")

    def _lost(self, doing: str) -> LeaseLost:
        return LeaseLost(job=self._claimed.job, run=self._claimed.run, doing=doing)

    def _statement(self) -> Statement[Settled]:
        claimed, own = self._claimed, self._claimed.result
        # What the handler returns comes after this commit and cannot be kept: the flag says so, unless
        # ctx.complete_with() has named a result.
        complete = CompleteJob(None, NO_RESULT) if own is None else CompleteJob(own.result, own.flag)
        settlement = Settlement(claimed.worker, claimed.job, claimed.run, complete)
        return settle(self._schema, [settlement], retention=self._retention)
