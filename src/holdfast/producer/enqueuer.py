"""Writes the single jobs of one event loop: a lone one at once, those that come meanwhile in one commit.

A few statements are under way at most, each on a connection of its own: while one commit waits for the disk,
others are prepared.
"""

import asyncio

from holdfast.domain.job import NewJob
from holdfast.errors import StatementFailed
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.producer.notifier import Notifier, wishes
from holdfast.storage.jobs import Enqueued, enqueue

BATCH = 200
BATCH_TEXT = 1024 * 1024
_AT_ONCE = 2


class Enqueuer:
    """While one statement is under way the next batch gathers, so nobody waits for company.

    A job with a unique key goes alone: it may have to wait for somebody else's transaction.
    """

    def __init__(self, database: Database, schema: Schema, notifier: Notifier) -> None:
        self._database = database
        self._schema = schema
        self._notifier = notifier
        self._gathering: list[tuple[NewJob, asyncio.Future[Enqueued]]] = []
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, job: NewJob) -> Enqueued:
        """Committed when it returns. Who is cancelled before his batch is sent has enqueued nothing."""
        if job.unique_key is not None:
            return (await self._write([job]))[0]
        if self._under_way >= _AT_ONCE:
            answer: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
            self._gathering.append((job, answer))
            return await answer
        self._under_way += 1
        self._idle.clear()
        try:
            return (await self._write([job]))[0]
        finally:
            self._go_on()

    async def finish(self) -> None:
        """Until everything that was put is written, or refused."""
        await self._idle.wait()

    def _go_on(self) -> None:
        """A task of its own from here on: whoever was first has no reason to wait for the others."""
        if self._gathering:
            task = asyncio.get_running_loop().create_task(self._write_gathered())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._end()

    def _end(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    async def _write_gathered(self) -> None:
        batch: list[tuple[NewJob, asyncio.Future[Enqueued]]] = []
        try:
            while batch := self._next_batch():
                await self._answer(batch)
                # Whoever was answered may have the next job ready: it comes along.
                await asyncio.sleep(0)
        finally:
            # Anything is left only when the event loop is about to end, with jobs that nobody will write.
            left, self._gathering = [*batch, *self._gathering], []
            for _, answer in left:
                answer.cancel()
            self._end()

    def _next_batch(self) -> list[tuple[NewJob, "asyncio.Future[Enqueued]"]]:
        waiting = [each for each in self._gathering if not each[1].done()]
        size = number = 0
        for job, _ in waiting[:BATCH]:
            size += len(job.args)
            if number and size > BATCH_TEXT:
                break
            number += 1
        batch, self._gathering = waiting[:number], waiting[number:]
        return batch

    async def _answer(self, batch: list[tuple[NewJob, "asyncio.Future[Enqueued]"]]) -> None:
        try:
            rows = await self._write([job for job, _ in batch])
        except StatementFailed as error:
            if len(batch) == 1:
                _refuse(batch[0][1], error)
            else:
                # Postgres refuses something in this batch: whoever it is, it is nobody else's fault.
                for each in batch:
                    await self._answer([each])
        except Exception as error:  # noqa: BLE001  # raised where the jobs came from
            for _, answer in batch:
                _refuse(answer, error)
        else:
            for (_, answer), row in zip(batch, rows, strict=True):
                if not answer.done():
                    answer.set_result(row)

    async def _write(self, jobs: list[NewJob]) -> list[Enqueued]:
        names = wishes(jobs)
        is_told = self._notifier.may_ride(names)
        rows = await self._database.run(enqueue(self._schema, jobs, notify=is_told))
        self._notifier.tell(names, has_ridden=is_told)
        return rows


def _refuse(answer: "asyncio.Future[Enqueued]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
