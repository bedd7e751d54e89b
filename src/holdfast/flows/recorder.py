"""What flows write and read, for all flows of a worker together."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

from holdfast.domain.flow_path import PathPlace, Recorded
from holdfast.domain.job import NewJob
from holdfast.domain.retention import Retention
from holdfast.errors import (
    Conflict,
    ConnectionFailed,
    ConnectionLost,
    InvalidInput,
    LeaseLost,
    PoolTimeout,
    ServerUnable,
)
from holdfast.flows.suspension import Interrupted
from holdfast.postgres.batcher import Batcher
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.producer.wake_ups import woken_by
from holdfast.storage import flows
from holdfast.storage.flows import Fence, Wait, Waited, Writing
from holdfast.storage.jobs import CHUNK
from holdfast.storage.operators import cancel

T = TypeVar("T")

# The database was away, or could not do it now: no attempt has failed. A missing privilege or table is not
# among these and costs an attempt: otherwise a step would run again and again until it is there.
AWAY = (ConnectionFailed, ConnectionLost, PoolTimeout, Conflict, ServerUnable)


class Recorder:
    """`tell` wakes the workers of queues, so that new children are claimed at once."""

    def __init__(
        self, database: Database, schema: Schema, retention: Retention, tell: Callable[[set[str]], None]
    ) -> None:
        self._database = database
        self._tell = tell
        self.schema = schema
        self._retention = retention
        self._loads = Batcher(self._load_all)
        self._writings = Batcher(self._write_all)
        self._sleeps = Batcher(self._sleep_all)
        self._waits = Batcher(self._wait_all)

    async def load(self, job: int) -> list[Recorded]:
        """All that a flow has done so far."""
        try:
            return await self._loads.put(job)
        except AWAY as error:
            raise Interrupted(error) from error

    async def write(self, writing: Writing) -> None:
        """Committed when it returns, or LeaseLost."""
        try:
            is_written = await self._writings.put(writing)
        except AWAY as error:
            raise Interrupted(error) from error
        if not is_written:
            raise lost(writing.fence, f'keep what step "{writing.name}" came to')

    async def wait(self, waits: list[Wait]) -> list[Waited]:
        """What is there already, or the end of the run."""
        batcher = self._waits if flows.is_locking(waits) else self._sleeps
        try:
            answers = await batcher.put(waits)
        except AWAY as error:
            raise Interrupted(error) from error
        if any(answer.status == "lost" for answer in answers):
            raise lost(waits[0].fence, f'wait for "{waits[0].name}"')
        return answers

    async def call(
        self,
        fence: Fence,
        jobs: Sequence[tuple[str, NewJob]],
        *,
        bunch: str,
        place: PathPlace,
        code: int | None,
    ) -> list[int]:
        """Begin children, a chunk at a time: those of a chunk that was written are known to the next run."""
        begun: list[int] = []
        for first in range(0, len(jobs), CHUNK):
            chunk = jobs[first : first + CHUNK]
            statement = flows.call(
                self.schema,
                fence,
                [job for _, job in chunk],
                [name for name, _ in chunk],
                bunch=bunch,
                place=place.number,
                code=code,
                branch=place.branch,
            )
            ids = await self._run(statement)
            if not ids:
                raise lost(fence, f'begin "{chunk[0][0]}"')
            begun += ids
            self._tell(woken_by(job for _, job in chunk))
        return begun

    async def adopt(self, fence: Fence, child: int, name: str, *, place: PathPlace, code: int | None) -> None:
        statement = flows.adopt(
            self.schema, fence, child, name, place=place.number, code=code, branch=place.branch
        )
        adopted = await self._run(statement)
        if not adopted:
            raise lost(fence, f"wait for job {child}")
        if adopted[0].cycle:
            chain = " → ".join(map(str, [fence.job, *adopted[0].cycle]))
            raise InvalidInput(
                f"flow {fence.job} cannot wait for job {child}, which waits for it ({chain}): none of them "
                "would ever end; let one of them emit an event, or pass its result on as an argument"
            )

    async def cancel(self, jobs: Sequence[int], reason: str) -> None:
        try:
            asked = cancel(self.schema, jobs, retention=self._retention, reason=reason)
            await hold(asked, self._database.run)
        except AWAY as error:
            raise Interrupted(error) from error

    async def fail_waiting(self, fence: Fence, error: str) -> bool:
        """Fail a flow that waits since this run. False: it does not wait any more."""
        failing = flows.fail_waiting(self.schema, fence.job, fence.run, error, retention=self._retention)
        return bool(await self._run(failing))

    async def _run(self, statement: Statement[T]) -> list[T]:
        try:
            return await self._database.run(statement)
        except AWAY as error:
            raise Interrupted(error) from error

    async def _load_all(self, jobs: list[int]) -> list[list[Recorded]]:
        by_job: defaultdict[int, list[Recorded]] = defaultdict(list)
        for record in await self._database.run(flows.load(self.schema, sorted(set(jobs)))):
            by_job[record.job].append(record)
        return [by_job[job] for job in jobs]

    async def _write_all(self, writings: list[Writing]) -> list[bool]:
        taken = set(await self._database.run(flows.checkpoint(self.schema, writings)))
        return [writing.fence.run in taken for writing in writings]

    async def _sleep_all(self, sleeps: list[list[Wait]]) -> list[list[Waited]]:
        answers = await hold(flows.wait(self.schema, _flat(sleeps)), self._database.run)
        return _by_run(sleeps, answers)

    async def _wait_all(self, waits: list[list[Wait]]) -> list[list[Waited]]:
        async with self._database.transaction() as transaction:
            answers = await hold(flows.wait(self.schema, _flat(waits)), transaction.run)
        return _by_run(waits, answers)


def lost(fence: Fence, doing: str) -> LeaseLost:
    return LeaseLost(job=fence.job, run=fence.run, doing=doing)


def _flat(together: list[list[Wait]]) -> list[Wait]:
    return [wait for waits in together for wait in waits]


def _by_run(together: list[list[Wait]], answers: list[Waited]) -> list[list[Waited]]:
    by_run: defaultdict[int, list[Waited]] = defaultdict(list)
    for answer in answers:
        by_run[answer.run].append(answer)
    return [by_run[waits[0].fence.run] for waits in together]
