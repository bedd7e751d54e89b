"""`app.jobs`: what operators ask about jobs, and do with them. Every verb comes twice: awaited, and blocking
with `_sync`. With `conn` it is part of your transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.domain.job import check_ids
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.redaction import Redaction
from holdfast.domain.retention import Retention
from holdfast.insights import job_actions
from holdfast.insights.bulk_actions import read_when
from holdfast.insights.explanation import Explanation, explain, unknown_id
from holdfast.insights.job_actions import PYTHON
from holdfast.insights.job_detail import show_job
from holdfast.insights.job_list import list_page
from holdfast.insights.job_records import JobDetail, JobPage
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.explaining import circumstances
from holdfast.storage.job_lookup import job_detail

Ids = int | Sequence[int]
When = datetime | timedelta | str
# Named out here: inside the class, `list` is the verb.
Answers = dict[int, str]


class Jobs:
    """Arguments and results that it shows have a mask in place of secrets. Every action takes the ids of
    jobs, answers for each what became of it, and leaves an entry in the audit: `by` is who acts, `reason`
    why.
    """

    def __init__(
        self,
        schema: Schema,
        holder: Holder,
        retention: Callable[[], Retention],
        declared: Callable[[], Mapping[str, Redaction]],
    ) -> None:
        self._schema = schema
        self._holder = holder
        self._retention = retention
        self._declared = declared

    async def list(
        self,
        filter: str | JobFilter = "",  # noqa: A002  # what it is
        *,
        after: str | None = None,
        limit: int = 50,
        conn: object = None,
    ) -> JobPage:
        """A page of the jobs that match a filter such as "state:failed kind:pay created:<1h", newest first;
        all jobs without one. `after`: the `next` of the page before.
        """
        return await self._holder.hold(
            list_page(self._schema, filter, after=after, limit=limit, declared=self._declared()), conn
        )

    def list_sync(
        self,
        filter: str | JobFilter = "",  # noqa: A002  # what it is
        *,
        after: str | None = None,
        limit: int = 50,
        conn: object = None,
    ) -> JobPage:
        return self._holder.hold_sync(
            list_page(self._schema, filter, after=after, limit=limit, declared=self._declared()), conn
        )

    async def show(self, job: int, *, conn: object = None) -> JobDetail:
        """One job in full. JobNotFound if there is none (any more)."""
        return await self._holder.hold(show_job(self._schema, job, self._declared()), conn)

    def show_sync(self, job: int, *, conn: object = None) -> JobDetail:
        return self._holder.hold_sync(show_job(self._schema, job, self._declared()), conn)

    async def explain(self, job: int, *, conn: object = None) -> Explanation:
        """Why a job is not running, in one sentence, and what to do about it. A job that ended says how."""
        return await self._holder.hold(_explain(self._schema, job), conn)

    def explain_sync(self, job: int, *, conn: object = None) -> Explanation:
        return self._holder.hold_sync(_explain(self._schema, job), conn)

    async def cancel(
        self, jobs: Ids, *, reason: str = ON_REQUEST, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """End jobs that wait, and ask those that run to stop. For each: cancelled, requested, final, unknown,
        or busy: it kept moving, try again.
        """
        return await self._holder.hold(
            job_actions.cancel(self._schema, jobs, retention=self._retention(), reason=reason, by=by), conn
        )

    def cancel_sync(
        self, jobs: Ids, *, reason: str = ON_REQUEST, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(
            job_actions.cancel(self._schema, jobs, retention=self._retention(), reason=reason, by=by), conn
        )

    async def retry(
        self, jobs: Ids, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Run failed jobs from their start, with all attempts and nothing saved. For each: retried, duplicate
        (an active job holds its unique key), unknown (also if it has not failed) or busy.
        """
        return await self._holder.hold(job_actions.retry(self._schema, jobs, reason=reason, by=by), conn)

    def retry_sync(
        self, jobs: Ids, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(job_actions.retry(self._schema, jobs, reason=reason, by=by), conn)

    async def resume(
        self, jobs: Ids, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Give failed jobs one more attempt, with the state and the steps that they saved. For each: resumed,
        duplicate, unknown or busy.
        """
        return await self._holder.hold(job_actions.resume(self._schema, jobs, reason=reason, by=by), conn)

    def resume_sync(
        self, jobs: Ids, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(job_actions.resume(self._schema, jobs, reason=reason, by=by), conn)

    async def reprioritise(
        self, jobs: Ids, priority: int, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Give jobs another priority, 0 (most urgent) to 9; one that runs has it from its next attempt on.
        For each: changed, final, unknown or busy.
        """
        return await self._holder.hold(
            job_actions.reprioritise(self._schema, jobs, priority, reason=reason, by=by), conn
        )

    def reprioritise_sync(
        self, jobs: Ids, priority: int, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(
            job_actions.reprioritise(self._schema, jobs, priority, reason=reason, by=by), conn
        )

    async def reschedule(
        self, jobs: Ids, when: When, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Let waiting jobs run at another time: a moment, or a length from now ("0s": now). For each:
        rescheduled, too_late (its deadline comes first), running, waiting (a flow), final, unknown or busy.
        """
        return await self._holder.hold(
            job_actions.reschedule(self._schema, jobs, **read_when(when), reason=reason, by=by), conn
        )

    def reschedule_sync(
        self, jobs: Ids, when: When, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(
            job_actions.reschedule(self._schema, jobs, **read_when(when), reason=reason, by=by), conn
        )

    async def move(
        self, jobs: Ids, queue: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Put waiting jobs into another queue. For each: moved, duplicate (another job holds its unique key
        there), running, waiting (a flow), final, unknown or busy.
        """
        return await self._holder.hold(
            job_actions.move(self._schema, jobs, queue, reason=reason, by=by), conn
        )

    def move_sync(
        self, jobs: Ids, queue: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(job_actions.move(self._schema, jobs, queue, reason=reason, by=by), conn)

    async def delete(
        self, jobs: Ids, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Delete jobs with all that is known of them: those that ended, and those that wait for their turn.
        For each: deleted, awaited (a flow waits for it), running or waiting (cancel it first), unknown or
        busy.
        """
        return await self._holder.hold(job_actions.delete(self._schema, jobs, reason=reason, by=by), conn)

    def delete_sync(
        self, jobs: Ids, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(job_actions.delete(self._schema, jobs, reason=reason, by=by), conn)

    async def rerun(
        self,
        job: int,
        *,
        args: Mapping[str, Any] | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> int:
        """Enqueue a new job with the policy of this one, and with its arguments or edited ones; returns its
        id. A mask that you leave in edited arguments stands for the stored value.
        """
        return await self._holder.hold(
            job_actions.rerun(self._schema, job, args=args, reason=reason, by=by),
            conn,
        )

    def rerun_sync(
        self,
        job: int,
        *,
        args: Mapping[str, Any] | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> int:
        return self._holder.hold_sync(
            job_actions.rerun(self._schema, job, args=args, reason=reason, by=by),
            conn,
        )


def _explain(schema: Schema, job: int) -> Conversation[Explanation]:
    check_ids([job])
    page = yield from list_page(schema, JobFilter(ids=(job,)), after=None, limit=1)
    more = yield from ask(job_detail(schema, job))
    if not page.jobs or not more:
        return unknown_id(job)
    [summary], [detail] = page.jobs, more
    [around] = yield from ask(
        circumstances(
            schema,
            job=job,
            kind=summary.kind,
            queue=summary.queue,
            priority=summary.priority,
            worker=summary.worker,
            unique_key=detail.unique_key,
        )
    )
    return explain(summary, around, is_flow=detail.has_steps)
