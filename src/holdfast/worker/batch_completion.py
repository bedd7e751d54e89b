"""`ctx.transaction()` of a batch: the handler's writes and the completion of all its jobs in one commit."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from holdfast.domain.retention import Retention
from holdfast.errors import DatabaseError, InvalidInput, LeaseLost
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.borrowed.outage import has_met_outage, is_outcome_unknown
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.postgres.session_settings import Isolation
from holdfast.postgres.statement import Statement
from holdfast.postgres.thread_transactions import ThreadTransactions
from holdfast.storage.completions import (
    AllCompleted,
    RunToComplete,
    complete_all,
    complete_all_or_fail,
    is_refused,
    lost_run,
)
from holdfast.worker.batch_run import BatchMember, BatchRun
from holdfast.worker.claimed_run import CommittedEnd, Stop
from holdfast.worker.completion import Completion, run_to_complete


class BatchCompletion(Completion):
    """Every job is fenced: if one has lost its lease, nothing is written, neither of the handler nor of the
    other jobs.
    """

    def __init__(
        self,
        batch: BatchRun,
        connection: object,
        isolation: Isolation | None = None,
        *,
        database: Database,
        blocking: ThreadTransactions,
        schema: Schema,
        retention: Retention,
    ) -> None:
        super().__init__(
            batch,
            connection,
            isolation,
            database=database,
            blocking=blocking,
            schema=schema,
            retention=retention,
        )
        self._batch = batch
        self._completed: list[BatchMember] = []

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batch.left_block = error
        await super().__aexit__(kind, error, trace)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batch.left_block = error
        super().__exit__(kind, error, trace)

    async def _complete(self, connection: object) -> None:
        self._judge_all(await run_on(connection, complete_all(*self._asked(), retention=self._retention)))

    def _complete_blocking(self, connection: object) -> None:
        self._judge_all(run_on_blocking(connection, complete_all(*self._asked(), retention=self._retention)))

    def _last(self) -> Statement[Any]:
        return complete_all_or_fail(*self._asked(), retention=self._retention)

    def _asked(self) -> tuple[Schema, list[RunToComplete]]:
        self._check("commit")
        self._completed = self._batch.to_complete
        return self._schema, [run_to_complete(member) for member in self._completed]

    @contextmanager
    def _completing(self) -> Iterator[None]:
        members = self._batch.to_complete
        for member in members:
            member.is_completing = True
        try:
            yield
        except BaseException as error:
            for member in members:
                member.is_completing = False
            if isinstance(error, DatabaseError) and is_refused(error):
                raise self._lost_one(lost_run(error)) from error
            self._batch.met_outage = has_met_outage(error)
            if is_outcome_unknown(error):
                for member in members:
                    member.uncertain_end = _end(member)
            raise
        self._batch.committed = CommittedEnd("succeeded")
        for member in self._completed:
            member.committed = _end(member)

    def _check(self, doing: str) -> None:
        for member in self._batch.to_complete:
            if member.stop is Stop.LOST:
                raise LeaseLost(job=member.job, run=member.run, doing=doing)
        if self._batch.committed is not None:
            raise InvalidInput(
                "these jobs are completed already: ctx.transaction() can be used once in a batch"
            )

    def _judge_all(self, answers: list[AllCompleted]) -> None:
        if answers[0].answer != "settled":
            raise self._lost_one(answers[0].lost)

    def _lost_one(self, run: int | None) -> LeaseLost:
        lost = next((member for member in self._completed if member.run == run), self._batch.members[0])
        return LeaseLost(job=lost.job, run=lost.run, doing="commit")


def _end(member: BatchMember) -> CommittedEnd:
    return CommittedEnd("succeeded", None if member.result is None else member.result.flag)
