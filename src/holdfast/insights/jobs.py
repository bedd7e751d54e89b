"""`app.jobs`: what operators ask about jobs, and do with them. Every verb comes twice: awaited, and blocking
with `_sync`. With `conn` it is part of your transaction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job import Target, id_of
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.redaction import Redactions
from holdfast.domain.retention import Retention
from holdfast.errors import SchemaOutdated
from holdfast.insights import job_actions
from holdfast.insights.bulk_actions import read_when
from holdfast.insights.explanation import schema_behind, unknown_id
from holdfast.insights.job_detail import explained, show_job
from holdfast.insights.job_list import find_job, list_page
from holdfast.insights.job_logs import log_page
from holdfast.insights.job_records import Explanation, JobDetail, JobPage
from holdfast.insights.job_tail import look
from holdfast.insights.log_records import LogPage
from holdfast.insights.near_names import ADVICE_FOR_MOVE, check_queue, hints_for
from holdfast.insights.tail_records import TailMark, TailPage
from holdfast.postgres.conversation import Conversation, Holder
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import PYTHON

Targets = Target | Sequence[Target]
When = datetime | timedelta | str
# Named out here: inside the class, `list` is the verb.
Answers = dict[int, str]


class Jobs:
    """Arguments and results that it shows have a mask in place of secrets. Every action takes jobs by their
    ids, as handles or as a list shows them, answers for each id what became of it, and leaves an entry in the
    audit: `by` is who acts, `reason` why.
    """

    def __init__(
        self,
        schema: Schema,
        holder: Holder,
        retention: Callable[[], Retention],
        declared: Callable[[], Redactions],
        named: Callable[[], Iterable[str]],
    ) -> None:
        """`named` are the queues that the app's own code names."""
        self._schema = schema
        self._holder = holder
        self._retention = retention
        self._declared = declared
        self._named = named

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
        return await self._holder.look(self._list(filter, after, limit), conn)

    def list_sync(
        self,
        filter: str | JobFilter = "",  # noqa: A002  # what it is
        *,
        after: str | None = None,
        limit: int = 50,
        conn: object = None,
    ) -> JobPage:
        return self._holder.look_sync(self._list(filter, after, limit), conn)

    async def show(self, job: Target, *, conn: object = None) -> JobDetail:
        """One job in full. JobNotFound if there is none (any more)."""
        return await self._holder.look(show_job(self._schema, id_of(job), self._declared()), conn)

    def show_sync(self, job: Target, *, conn: object = None) -> JobDetail:
        return self._holder.look_sync(show_job(self._schema, id_of(job), self._declared()), conn)

    async def explain(self, job: Target, *, conn: object = None) -> Explanation:
        """Why a job is not running, in one sentence, and what to do about it. A job that ended says how."""
        try:
            return await self._holder.look(_explain(self._schema, id_of(job)), conn)
        except SchemaOutdated as error:
            return schema_behind(id_of(job), error)

    def explain_sync(self, job: Target, *, conn: object = None) -> Explanation:
        try:
            return self._holder.look_sync(_explain(self._schema, id_of(job)), conn)
        except SchemaOutdated as error:
            return schema_behind(id_of(job), error)

    async def logs(
        self,
        job: Target,
        *,
        run: int | None = None,
        after: str | None = None,
        limit: int = 100,
        conn: object = None,
    ) -> LogPage:
        """A page of the log lines that are kept with a job, oldest first; only those of one `run`, if it is
        given. `after`: the `next` of the page before. Lines are kept if the kind says so: `keep_logs`.
        """
        return await self._holder.look(self._logs(job, run, after, limit), conn)

    def logs_sync(
        self,
        job: Target,
        *,
        run: int | None = None,
        after: str | None = None,
        limit: int = 100,
        conn: object = None,
    ) -> LogPage:
        return self._holder.look_sync(self._logs(job, run, after, limit), conn)

    async def tail(
        self,
        filter: str | JobFilter = "",  # noqa: A002  # what it is
        *,
        after: TailMark | None = None,
        conn: object = None,
    ) -> TailPage:
        """What has happened to the jobs that match a filter since the last look: runs that started, log lines
        that are kept, runs that ended. Call it every second or so, with the `next` of the page before. The
        first look tells what runs now; of jobs that are named by their ids ("id:42"), all that is known.
        """
        return await self._holder.hold(
            look(self._schema, filter, after, retention=self._retention(), declared=self._declared()), conn
        )

    def tail_sync(
        self,
        filter: str | JobFilter = "",  # noqa: A002  # what it is
        *,
        after: TailMark | None = None,
        conn: object = None,
    ) -> TailPage:
        return self._holder.hold_sync(
            look(self._schema, filter, after, retention=self._retention(), declared=self._declared()), conn
        )

    async def cancel(
        self, jobs: Targets, *, reason: str = ON_REQUEST, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """End jobs that wait, and ask those that run to stop. For each: cancelled, requested, final, unknown,
        or busy: it kept moving, try again.
        """
        return await self._holder.hold(
            job_actions.cancel(self._schema, jobs, retention=self._retention(), reason=reason, by=by), conn
        )

    def cancel_sync(
        self, jobs: Targets, *, reason: str = ON_REQUEST, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(
            job_actions.cancel(self._schema, jobs, retention=self._retention(), reason=reason, by=by), conn
        )

    async def retry(
        self, jobs: Targets, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Run failed jobs from their start, with all attempts and nothing saved. For each: retried, duplicate
        (an active job holds its unique key), unknown (also if it has not failed) or busy.
        """
        return await self._holder.hold(job_actions.retry(self._schema, jobs, reason=reason, by=by), conn)

    def retry_sync(
        self, jobs: Targets, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(job_actions.retry(self._schema, jobs, reason=reason, by=by), conn)

    async def resume(
        self, jobs: Targets, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Give failed jobs one more attempt, with the state and the steps that they saved. For each: resumed,
        duplicate, unknown or busy.
        """
        return await self._holder.hold(job_actions.resume(self._schema, jobs, reason=reason, by=by), conn)

    def resume_sync(
        self, jobs: Targets, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(job_actions.resume(self._schema, jobs, reason=reason, by=by), conn)

    async def reprioritise(
        self,
        jobs: Targets,
        priority: int,
        *,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Answers:
        """Give jobs another priority, 0 (most urgent) to 9; one that runs has it from its next attempt on.
        For each: changed, final, unknown or busy.
        """
        return await self._holder.hold(
            job_actions.reprioritise(self._schema, jobs, priority, reason=reason, by=by), conn
        )

    def reprioritise_sync(
        self,
        jobs: Targets,
        priority: int,
        *,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Answers:
        return self._holder.hold_sync(
            job_actions.reprioritise(self._schema, jobs, priority, reason=reason, by=by), conn
        )

    async def reschedule(
        self, jobs: Targets, when: When, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Let waiting jobs run at another time: a moment, or a length from now ("0s": now). For each:
        rescheduled, too_late (its deadline comes first), running, waiting (a flow), final, unknown or busy.
        """
        return await self._holder.hold(
            job_actions.reschedule(self._schema, jobs, **read_when(when), reason=reason, by=by), conn
        )

    def reschedule_sync(
        self, jobs: Targets, when: When, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(
            job_actions.reschedule(self._schema, jobs, **read_when(when), reason=reason, by=by), conn
        )

    async def move(
        self,
        jobs: Targets,
        queue: str,
        *,
        create: bool = False,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Answers:
        """Put waiting jobs into another queue. For each: moved, duplicate (another job holds its unique key
        there), running, waiting (a flow), final, unknown or busy. QueueNotFound if nothing knows a queue of
        that name, unless you pass `create`.
        """
        return await self._holder.hold(self._move(jobs, queue, by, reason, create=create), conn)

    def move_sync(
        self,
        jobs: Targets,
        queue: str,
        *,
        create: bool = False,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Answers:
        return self._holder.hold_sync(self._move(jobs, queue, by, reason, create=create), conn)

    async def delete(
        self, jobs: Targets, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        """Delete jobs with all that is known of them: those that ended, and those that wait for their turn.
        For each: deleted, awaited (a flow waits for it), running or waiting (cancel it first), unknown or
        busy.
        """
        return await self._holder.hold(job_actions.delete(self._schema, jobs, reason=reason, by=by), conn)

    def delete_sync(
        self, jobs: Targets, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> Answers:
        return self._holder.hold_sync(job_actions.delete(self._schema, jobs, reason=reason, by=by), conn)

    async def rerun(
        self,
        job: Target,
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
            job_actions.rerun(self._schema, id_of(job), args=args, reason=reason, by=by),
            conn,
        )

    def rerun_sync(
        self,
        job: Target,
        *,
        args: Mapping[str, Any] | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> int:
        return self._holder.hold_sync(
            job_actions.rerun(self._schema, id_of(job), args=args, reason=reason, by=by),
            conn,
        )

    def _list(self, asked: str | JobFilter, after: str | None, limit: int) -> Conversation[JobPage]:
        page = yield from list_page(self._schema, asked, after=after, limit=limit, declared=self._declared())
        if page.jobs or after is not None:
            return page
        meant = parse_filter(asked) if isinstance(asked, str) else asked
        return replace(page, hints=(yield from hints_for(self._schema, meant)))

    def _logs(self, job: Target, run: int | None, after: str | None, limit: int) -> Conversation[LogPage]:
        return log_page(self._schema, id_of(job), run=run, after=after, limit=limit)

    def _move(
        self, jobs: Targets, queue: str, by: str, reason: str | None, *, create: bool
    ) -> Conversation[Answers]:
        ids = job_actions.read_ids(jobs)
        if not create:
            yield from check_queue(self._schema, queue, self._named(), ADVICE_FOR_MOVE)
        return (yield from job_actions.move(self._schema, ids, queue, reason=reason, by=by))


def _explain(schema: Schema, job: int) -> Conversation[Explanation]:
    found = yield from find_job(schema, job)
    if found is None:
        return unknown_id(job)
    return (yield from explained(schema, found))
