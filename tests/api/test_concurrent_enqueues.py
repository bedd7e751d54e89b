"""Enqueues that run at the same time share commits, and nothing else."""

import asyncio

import psycopg

from api.observer import Observer
from holdfast import App
from holdfast.domain.job import NewJob, Policy
from holdfast.errors import DataRefused
from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.producer.enqueuer import BATCH, BATCH_TEXT, Enqueuer
from holdfast.producer.notifier import Notifier

COMMITS = "select count(distinct xmin::text) from holdfast.job"
JOBS = "select count(*) from holdfast.job"
READY = "select count(*) from holdfast.ready"


def asked(observer: Observer, query: str) -> int:
    return int(observer.connection.execute(query.encode()).fetchall()[0][0])


async def test_jobs_enqueued_at_once_share_commits_and_keep_their_own_arguments(
    app: App, observer: Observer
) -> None:
    @app.job
    async def count(number: int) -> None: ...

    handles = await asyncio.gather(*(count.enqueue(number) for number in range(100)))
    assert [handle.is_new for handle in handles] == [True] * 100
    rows = observer.connection.execute("select id, args ->> 'number' from holdfast.job").fetchall()
    assert dict(rows) == {handle.id: str(number) for number, handle in enumerate(handles)}
    assert asked(observer, READY) == 100
    assert asked(observer, COMMITS) < 10


async def test_a_job_that_postgres_refuses_takes_no_other_with_it(dsn: str, observer: Observer) -> None:
    good, bad = NewJob(Policy("count"), '{"number": 1}'), NewJob(Policy("count"), '{"number": 01}')
    async with Database(dsn) as database:
        enqueuer = Enqueuer(database, Schema(), Notifier(database, Schema()))
        answers = await asyncio.gather(
            *(enqueuer.put(job) for job in (good, good, bad, good)), return_exceptions=True
        )
    assert [type(answer) is DataRefused for answer in answers] == [False, False, True, False]
    assert asked(observer, JOBS) == 3


async def test_a_caller_cancelled_before_its_batch_is_sent_has_enqueued_nothing(
    dsn: str, observer: Observer
) -> None:
    async with Database(dsn) as database:
        enqueuer = Enqueuer(database, Schema(), Notifier(database, Schema()))
        tasks = [asyncio.create_task(enqueuer.put(NewJob(Policy("count")))) for _ in range(3)]
        await asyncio.sleep(0)  # the first is under way, the others gather
        tasks[1].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[1], asyncio.CancelledError)
    assert asked(observer, JOBS) == 2


async def test_a_caller_cancelled_while_its_job_is_sent_leaves_the_others_to_be_written(
    dsn: str, observer: Observer
) -> None:
    async with Database(dsn) as database:
        enqueuer = Enqueuer(database, Schema(), Notifier(database, Schema()))
        tasks = [asyncio.create_task(enqueuer.put(NewJob(Policy("count")))) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert not any(isinstance(answer, BaseException) for answer in answers[1:])
        await enqueuer.put(NewJob(Policy("count")))
    assert asked(observer, JOBS) in (3, 4)


async def test_no_enqueue_waits_for_a_unique_key_that_another_transaction_holds(
    app: App, dsn: str, observer: Observer
) -> None:
    @app.job
    async def count(number: int) -> None: ...

    with psycopg.connect(dsn) as other:
        count.using(conn=other, unique="same").enqueue_sync(1)
        waiting = asyncio.create_task(count.using(unique="same").enqueue(2))
        async with asyncio.timeout(30):
            await asyncio.gather(*(count.enqueue(number) for number in range(10)))
        assert not waiting.done()
        other.commit()
    assert not (await waiting).is_new
    assert asked(observer, JOBS) == 11


async def test_more_than_a_batch_and_more_than_its_text_are_written_in_turns(
    dsn: str, observer: Observer
) -> None:
    large = NewJob(Policy("count"), f'{{"text": "{"x" * (BATCH_TEXT // 2)}"}}')
    async with Database(dsn) as database:
        enqueuer = Enqueuer(database, Schema(), Notifier(database, Schema()))
        many = [large] * 5 + [NewJob(Policy("count"))] * (BATCH + 5)
        answers = await asyncio.gather(*(enqueuer.put(job) for job in many))
    assert len({answer.job for answer in answers}) == len(many) == asked(observer, JOBS)


async def test_closing_waits_for_what_was_put(dsn: str, observer: Observer) -> None:
    app = App(dsn)

    @app.job
    async def count(number: int) -> None: ...

    await count.enqueue(0)
    tasks = [asyncio.create_task(count.enqueue(number)) for number in range(20)]
    await asyncio.sleep(0)
    await app.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert asked(observer, JOBS) == 21
