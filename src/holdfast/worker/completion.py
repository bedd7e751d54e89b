"""`ctx.transaction()`: the handler's writes, its follow-up jobs and the job's completion in one commit."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any

from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.errors import DatabaseError, InvalidInput, LeaseLost
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.borrowed.driver_errors import told
from holdfast.postgres.borrowed.outage import has_met_outage, is_outcome_unknown
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.postgres.session_settings import Isolation
from holdfast.postgres.sqlstate import TOO_LATE_FOR_THE_TRANSACTION
from holdfast.postgres.statement import Statement
from holdfast.postgres.thread_transactions import ThreadTransactions
from holdfast.storage.completions import (
    RunToComplete,
    complete_one,
    complete_one_or_fail,
    is_refused,
)
from holdfast.storage.runs import Answer
from holdfast.worker.claimed_run import ClaimedRun, CommittedEnd, Stop
from holdfast.worker.committing_block import committing, committing_blocking
from holdfast.worker.own_block import OwnBlock, OwnBlockingBlock

NO_RESULT = "completed_in_transaction"


class Completion:
    """Entered by `async with` or by `with`. The job is completed as the last statement before the commit, so
    the fence is checked when the writes are done, and its lock lasts no longer than the commit.
    """

    def __init__(
        self,
        claimed: ClaimedRun,
        connection: object,
        isolation: Isolation | None = None,
        *,
        database: Database,
        blocking: ThreadTransactions,
        schema: Schema,
        retention: Retention,
    ) -> None:
        self._claimed = claimed
        self._connection = connection
        self._isolation = isolation
        self._database = database
        self._blocking = blocking
        self._schema = schema
        self._retention = retention
        self._async_block: AbstractAsyncContextManager[Any, bool | None] | None = None
        self._block: AbstractContextManager[Any, bool | None] | None = None

    async def __aenter__(self) -> Any:
        with self._beginning():
            self._async_block = self._made()
            return await self._async_block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._async_block is not None, "entered before"  # noqa: S101  # by the language
        try:
            if error is not None:
                _advise(error)
                await self._async_block.__aexit__(kind, error, trace)
                return
            with self._completing():
                await self._async_block.__aexit__(None, None, None)
        finally:
            self._claimed.is_in_transaction = False

    def __enter__(self) -> Any:
        with self._beginning():
            self._block = self._made_blocking()
            return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._block is not None, "entered before"  # noqa: S101  # by the language
        try:
            if error is not None:
                _advise(error)
                self._block.__exit__(kind, error, trace)
                return
            with self._completing():
                self._block.__exit__(None, None, None)
        finally:
            self._claimed.is_in_transaction = False

    def _made(self) -> AbstractAsyncContextManager[Any, bool | None]:
        if self._connection is None:
            return OwnBlock(self._database.whole_transaction(self._isolation), self._last, self._met_outage)
        return committing(self._connection, self._database, self._complete, self._met_outage)

    def _made_blocking(self) -> AbstractContextManager[Any, bool | None]:
        if self._connection is None:
            return OwnBlockingBlock(self._blocking.transaction(self._isolation), self._last, self._met_outage)
        return committing_blocking(self._connection, self._complete_blocking, self._met_outage)

    async def _complete(self, connection: object) -> None:
        self._check("commit")
        self._judge(
            await run_on(connection, complete_one(self._schema, self._run(), retention=self._retention))
        )

    def _complete_blocking(self, connection: object) -> None:
        self._check("commit")
        self._judge(
            run_on_blocking(connection, complete_one(self._schema, self._run(), retention=self._retention))
        )

    def _last(self) -> Statement[Answer]:
        self._check("commit")
        return complete_one_or_fail(self._schema, self._run(), retention=self._retention)

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        """One block at a time: a block inside another would complete the job, and the fence would then refuse
        the writes of the outer one.
        """
        self._check("begin a transaction")
        if self._claimed.is_in_transaction:
            raise InvalidInput(
                "a transaction of this run is open: use its connection, as one commit completes the job"
            )
        self._claimed.is_in_transaction = True
        self._claimed.met_outage = False
        try:
            yield
        except BaseException as error:
            self._claimed.is_in_transaction = False
            self._claimed.met_outage = has_met_outage(error)
            raise

    @contextmanager
    def _completing(self) -> Iterator[None]:
        """From before the commit removes the lease until it is known whether it did."""
        claimed = self._claimed
        claimed.is_completing = True
        try:
            yield
        except BaseException as error:
            claimed.is_completing = False
            if isinstance(error, DatabaseError) and is_refused(error):
                raise self._lost("commit") from error
            claimed.met_outage = has_met_outage(error)
            if is_outcome_unknown(error):
                claimed.uncertain_end = self._end
            raise
        claimed.committed = self._end

    @property
    def _end(self) -> CommittedEnd:
        own = self._claimed.result
        return CommittedEnd("succeeded", None if own is None else own.flag)

    def _met_outage(self) -> None:
        """The block has failed, and so has its connection."""
        self._claimed.met_outage = True

    def _check(self, doing: str) -> None:
        if self._claimed.stop is Stop.LOST:
            raise self._lost(doing)
        if self._claimed.committed is not None:
            raise InvalidInput("this job is completed already: ctx.transaction() can be used once in a run")

    def _judge(self, answers: list[Answer]) -> None:
        if answers != ["settled"]:
            raise self._lost("commit")

    def _lost(self, doing: str) -> LeaseLost:
        return LeaseLost(job=self._claimed.job, run=self._claimed.run, doing=doing)

    def _run(self) -> RunToComplete:
        return run_to_complete(self._claimed)


def run_to_complete(claimed: ClaimedRun) -> RunToComplete:
    """What the handler returns comes after this commit and cannot be kept: the flag says so, unless
    ctx.complete_with() has named a result.
    """
    own = claimed.result
    complete = CompleteJob(None, NO_RESULT) if own is None else CompleteJob(own.result, own.flag)
    row = claimed.row
    is_plain, is_limited = row.is_plain is True, row.is_limited is True
    return RunToComplete(claimed.worker, claimed.job, claimed.run, complete, is_plain, is_limited)


def _advise(error: BaseException) -> None:
    """Postgres does not know what to do instead: the block's savepoint is ours."""
    code, sentence = told(error)
    if code == TOO_LATE_FOR_THE_TRANSACTION and "ISOLATION LEVEL" in sentence:
        error.add_note('ctx.transaction(isolation="…") begins its transaction at that isolation level')
