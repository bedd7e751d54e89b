"""Writes the single jobs of one event loop: a lone job at once, jobs that come meanwhile in one commit."""

from collections.abc import Sequence

from holdfast.domain.job import NewJob
from holdfast.postgres.batcher import Batcher
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.producer.notifier import Notifier
from holdfast.producer.wake_ups import woken_by
from holdfast.storage.jobs import Enqueued, enqueue

BATCH = 200
BATCH_TEXT = 1024 * 1024
_AT_ONCE = 2


class Enqueuer:
    def __init__(self, database: Database, schema: Schema, notifier: Notifier) -> None:
        self._database = database
        self._schema = schema
        self._notifier = notifier
        self._batcher = Batcher(self._write, at_once=_AT_ONCE, fitting=_fitting)

    async def put(self, job: NewJob) -> Enqueued:
        """The job is committed when this returns. A caller that is cancelled before its batch is sent has
        enqueued nothing. A job with a unique key goes alone: it may have to wait for another transaction.
        """
        if job.unique_key is None:
            return await self._batcher.put(job)
        return (await self._write([job]))[0]

    async def finish(self) -> None:
        """Wait until every job that was put is written or refused."""
        await self._batcher.finish()

    async def _write(self, jobs: list[NewJob]) -> list[Enqueued]:
        names = woken_by(jobs)
        is_notified = self._notifier.may_carry(names)
        rows = await self._database.run(enqueue(self._schema, jobs, notify=is_notified))
        self._notifier.tell(names, is_notified=is_notified)
        return rows


def _fitting(jobs: Sequence[NewJob]) -> int:
    """As many as a batch holds by number and by the length of their arguments, at least one."""
    size = count = 0
    for job in jobs[:BATCH]:
        size += len(job.args)
        if count and size > BATCH_TEXT:
            break
        count += 1
    return count
