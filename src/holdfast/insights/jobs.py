"""`app.jobs`: what operators ask about jobs. Every verb comes twice: awaited, and blocking with `_sync`. With
`conn` it is part of your transaction.
"""

from holdfast.domain.job import check_ids
from holdfast.domain.job_filter import JobFilter
from holdfast.insights.explanation import Explanation, explain, unknown_id
from holdfast.insights.job_detail import show_job
from holdfast.insights.job_list import list_page
from holdfast.insights.job_records import JobDetail, JobPage
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.explaining import circumstances
from holdfast.storage.job_lookup import job_detail


class Jobs:
    """Arguments and results that it shows have a mask in place of secrets."""

    def __init__(self, schema: Schema, holder: Holder) -> None:
        self._schema = schema
        self._holder = holder

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
        return await self._holder.hold(list_page(self._schema, filter, after=after, limit=limit), conn)

    def list_sync(
        self,
        filter: str | JobFilter = "",  # noqa: A002  # what it is
        *,
        after: str | None = None,
        limit: int = 50,
        conn: object = None,
    ) -> JobPage:
        return self._holder.hold_sync(list_page(self._schema, filter, after=after, limit=limit), conn)

    async def show(self, job: int, *, conn: object = None) -> JobDetail:
        """One job in full. JobNotFound if there is none (any more)."""
        return await self._holder.hold(show_job(self._schema, job), conn)

    def show_sync(self, job: int, *, conn: object = None) -> JobDetail:
        return self._holder.hold_sync(show_job(self._schema, job), conn)

    async def explain(self, job: int, *, conn: object = None) -> Explanation:
        """Why a job is not running, in one sentence, and what to do about it. A job that ended says how."""
        return await self._holder.hold(_explain(self._schema, job), conn)

    def explain_sync(self, job: int, *, conn: object = None) -> Explanation:
        return self._holder.hold_sync(_explain(self._schema, job), conn)


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
    return explain(summary, around)
