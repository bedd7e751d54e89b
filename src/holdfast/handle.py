"""A handle on one job: its id, its status, and its result when it has one."""

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.domain.duration import compact
from holdfast.domain.light_value import LightValue
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.states import FINAL_STATES, JobState, final_state
from holdfast.errors import JobEnded, JobNotFound
from holdfast.postgres.statement import Statement
from holdfast.result_timeout import FOR_A_WORKER, result_timeout
from holdfast.result_waits import limit_of, refuse_on_a_loop, waits
from holdfast.storage.job_lookup import Found, find
from holdfast.storage.unserved import Coverage, service_of

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.codec.signature import Signature
    from holdfast.insights.job_records import Explanation

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job's state. `error`: that of its end, or of its last run while it waits for a retry. `flag`: why a
    job that has succeeded has no result.
    """

    id: int
    kind: str
    queue: str
    state: JobState
    attempt: int
    max_attempts: int
    created_at: datetime
    run_at: datetime | None
    finished_at: datetime | None
    error: dict[str, Any] | None
    progress: dict[str, Any] | None
    flag: str | None

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES


class Handle(LightValue, Generic[R], frozen=True, gc=True):
    """What `enqueue` returns. `is_new` is False if an active job already had the same unique key, and for a
    handle that was made from an id.
    """

    _app: "App"
    _signature: "Signature | None"
    id: int
    is_new: bool

    def __repr__(self) -> str:
        return f"<Handle of job {self.id}>"

    @property
    def __job_id__(self) -> int:
        return self.id

    async def status(self) -> JobStatus:
        return _status(self.id, await self._app.run(self._question()))

    def status_sync(self) -> JobStatus:
        return _status(self.id, self._app.run_sync(self._question()))

    async def result(self, timeout: str | timedelta | None = None) -> R:  # noqa: ASYNC109  # a length, not a scope
        """Wait until the job has ended, and return its result. Raises JobEnded if it failed, was cancelled or
        expired, and ResultTimeout if it has not ended in time.
        """
        limit, question, found = limit_of(timeout), self._question(), list[Found]()
        for wait in waits(limit):
            found = await self._app.run(question)
            if _is_over(self.id, found):
                return self._value(found[0])
            await asyncio.sleep(wait)
        service = None
        if found[0].state in FOR_A_WORKER:
            [service] = await self._app.run(self._service_of(found[0]))
        raise result_timeout(found[0], compact(limit or timedelta()), service)

    def result_sync(self, timeout: str | timedelta | None = None) -> R:
        """The same, blocking. Not for coroutines: the job may need the event loop that this would block."""
        refuse_on_a_loop()
        limit, question, found = limit_of(timeout), self._question(), list[Found]()
        for wait in waits(limit):
            found = self._app.run_sync(question)
            if _is_over(self.id, found):
                return self._value(found[0])
            time.sleep(wait)
        service = None
        if found[0].state in FOR_A_WORKER:
            [service] = self._app.run_sync(self._service_of(found[0]))
        raise result_timeout(found[0], compact(limit or timedelta()), service)

    async def cancel(self, reason: str = ON_REQUEST, *, conn: object = None) -> str:
        """End the job if it waits, ask it to end if it runs: cancelled, requested, final, unknown or busy."""
        return (await self._app.jobs.cancel(self.id, reason=reason, conn=conn))[self.id]

    def cancel_sync(self, reason: str = ON_REQUEST, *, conn: object = None) -> str:
        return self._app.jobs.cancel_sync(self.id, reason=reason, conn=conn)[self.id]

    def _question(self) -> Statement[Found]:
        return find(self._app.schema, self.id)

    async def explain(self) -> "Explanation":
        """Why the job is not running, in one sentence, and what to do about it; of one that ended, how."""
        return await self._app.jobs.explain(self.id)

    def explain_sync(self) -> "Explanation":
        return self._app.jobs.explain_sync(self.id)

    def _service_of(self, found: Found) -> Statement[Coverage]:
        return service_of(self._app.schema, queue=found.queue, kind=found.kind)

    def _value(self, found: Found) -> R:
        # A result that could not be kept was dropped and flagged; the job succeeded all the same.
        text = None if found.flag else found.result
        value: R
        if self._signature is not None:
            value = self._signature.decode_result(text)
        else:
            value = json.loads(text or "null")
        return value


def _status(job: int, found: list[Found]) -> JobStatus:
    if not found:
        raise JobNotFound(job)
    row = found[0]
    return JobStatus(
        row.job,
        row.kind,
        row.queue,
        row.state,
        row.attempt,
        row.max_attempts,
        row.created_at,
        row.run_at,
        row.finished_at,
        json.loads(row.error) if row.error else None,
        json.loads(row.progress) if row.progress else None,
        row.flag,
    )


def _is_over(job: int, found: list[Found]) -> bool:
    if not found:
        raise JobNotFound(job)
    row = found[0]
    state = final_state(row.state)
    if state is None or state == "succeeded":
        return state is not None
    error = json.loads(row.error) if row.error else {}
    raise JobEnded(job=job, state=state, error=error)
