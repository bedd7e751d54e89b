"""`app.queues`, and `app.jobs` for dead letters: pausing queues; listing, retrying and deleting dead jobs."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from api.observer import Observer
from holdfast import App, Job, Retry
from holdfast.errors import InvalidInput, JobEnded, QueueNotFound
from support.blocking_in_a_loop import both_colours


@pytest.fixture
def work(app: App) -> Job[[int], int]:
    @app.job(queue="mail", retry=Retry(max_attempts=1))
    async def work(number: int) -> int:
        if number < 0:
            raise ValueError("too small")
        return number

    return work


async def test_a_paused_queue_waits_until_it_is_resumed(app: App, work: Job[[int], int]) -> None:
    paused = await app.queues.pause("mail", note="moving")
    assert (paused.name, paused.is_paused, paused.paused_until, paused.note) == ("mail", True, None, "moving")
    handle = await work.enqueue(1)
    other = await work.using(queue="other").enqueue(2)
    async with app.worker(queues={"mail": 1, "other": 1}):
        assert await other.result("20s") == 2
        assert (await handle.status()).state == "ready"
        known = {queue.name: (queue.workers, queue.is_paused) for queue in await app.queues.list()}
        assert known == {"mail": (1, True), "other": (1, False)}
        assert await app.queues.resume("mail")
        assert await handle.result("20s") == 1
    assert not await app.queues.resume("mail")


@both_colours
async def test_a_queue_that_nothing_knows_is_refused_with_the_name_that_was_meant(
    app: App, work: Job[[int], int]
) -> None:
    for verb in (app.queues.pause, app.queues.resume):
        with pytest.raises(QueueNotFound, match=r'the queue "mial", .* did you mean "mail"\?') as unknown:
            await verb("mial")
        assert unknown.value.queue == "mial"
    for blocking in (app.queues.pause_sync, app.queues.resume_sync):
        with pytest.raises(QueueNotFound, match=r'did you mean "mail"\?'):
            blocking("mial")
    assert await app.queues.list() == []
    with pytest.raises(QueueNotFound, match=r"so nothing was changed: pass create=True to pause it before"):
        await app.queues.pause("quite another")
    assert (await app.queues.pause("mial", create=True)).is_paused
    assert await app.queues.resume("mial")
    assert not await app.queues.resume("mial"), "it has settings by now"


async def test_a_queue_is_known_by_its_jobs_its_schedules_and_its_workers(
    app: App, work: Job[[int], int], dsn: str
) -> None:
    await work.using(queue="ready").enqueue(1)
    await work.using(queue="later", delay="1h").enqueue(1)
    await app.schedules.put("nightly", work.using(queue="scheduled").call(1), every="1d")
    ended = await work.using(queue="ended").enqueue(1)
    async with app.worker(queues={"ended": 1}):
        await ended.result("60s")
    async with App(dsn) as stranger:
        for queue in ("ready", "later", "scheduled", "ended"):
            assert not await stranger.queues.resume(queue)
            assert (await stranger.queues.pause(queue)).is_paused
        with pytest.raises(QueueNotFound, match=r'did you mean "ready"\?'):
            await stranger.queues.pause("raedy")


def test_a_pause_may_have_an_end(blocking_app: App) -> None:
    for until in ("2h", timedelta(hours=2), datetime.now(UTC) + timedelta(hours=2)):
        status = blocking_app.queues.pause_sync("mail", until=until, create=True)
        assert status.paused_until is not None
    with pytest.raises(InvalidInput, match="which has passed"):
        blocking_app.queues.pause_sync("late", until=datetime(2020, 1, 1, tzinfo=UTC), create=True)
    with pytest.raises(InvalidInput, match="until"):
        blocking_app.queues.pause_sync("mail", until=5)  # type: ignore[arg-type]  # as an untyped caller may
    assert [queue.name for queue in blocking_app.queues.list_sync()] == ["mail"]
    assert blocking_app.queues.resume_sync("mail")


async def test_a_pause_until_a_time_that_has_passed_changes_nothing_of_a_queue_that_is_served(
    app: App, work: Job[[int], int]
) -> None:
    await app.queues.pause("mail", note="moving")
    async with app.worker(queues={"mail": 1}):
        for _ in range(2):
            [before] = await app.queues.list()
            with pytest.raises(InvalidInput, match="which has passed"):
                await app.queues.pause("mail", until=datetime(2020, 1, 1, tzinfo=UTC))
            assert await app.queues.list() == [before]
            await app.queues.resume("mail")


@both_colours
async def test_every_queue_is_listed_that_has_jobs_or_a_worker(
    app: App, work: Job[[int], int], dsn: str
) -> None:
    """Waiting, parked, running and delayed jobs."""
    await app.enqueue_many(work.using(queue="many").call(number) for number in range(10_001))
    await work.using(queue="later", delay="1h").enqueue(1)
    await work.using(queue="parked").enqueue(1)
    with psycopg.connect(dsn) as connection:
        connection.execute("update holdfast.ready set segment = 9 where queue = 'parked'")
        connection.execute(
            "update holdfast.job set created_at = created_at - interval '1 h' where queue = 'parked'"
        )
    async with app.worker(queues={"mail": 1}):
        known = {queue.name: queue for queue in await app.queues.list()}
    assert {name: (queue.workers, queue.waiting_text) for name, queue in known.items()} == {
        "later": (0, "0"),
        "mail": (1, "0"),
        "many": (0, "10,000+"),
        "parked": (0, "1"),
    }
    assert (known["many"].waiting, known["many"].has_more_waiting) == (10_000, True)
    assert known["parked"].oldest_age is not None
    assert known["parked"].oldest_age > timedelta(hours=1)
    assert known["mail"].oldest_age is None
    first, *rest = await app.queues.list()
    assert [queue.name for queue in await app.queues.list(after=first, limit=1)] == [rest[0].name]
    with pytest.raises(InvalidInput, match="give the last QueueStatus"):
        await app.queues.list(after="mail")  # type: ignore[arg-type]  # as an untyped caller may


async def test_running_jobs_are_counted_by_queue(app: App) -> None:
    running, over = asyncio.Event(), asyncio.Event()

    @app.job(queue="mail")
    async def hold() -> None:
        running.set()
        await over.wait()

    async with app.worker():
        await hold.enqueue()
        await asyncio.wait_for(running.wait(), 20)
        [mail] = await app.queues.list()
        assert (mail.name, mail.running, mail.waiting) == ("mail", 1, 0)
        over.set()


def test_a_pause_on_the_callers_transaction_is_rolled_back_with_it(blocking_app: App, dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        assert blocking_app.queues.pause_sync("mail", create=True, conn=connection).is_paused
        connection.rollback()
    assert blocking_app.queues.list_sync() == []


@both_colours
async def test_the_dead_are_listed_resumed_retried_and_deleted(
    app: App, work: Job[[int], int], observer: Observer
) -> None:
    handles = [await work.enqueue(number) for number in (-1, -2, -3)]
    async with app.worker():
        for handle in handles:
            with pytest.raises(JobEnded, match="too small"):
                await handle.result("20s")
    first, second, third = (handle.id for handle in handles)
    dead = (await app.jobs.list("state:failed queue:mail kind:work")).jobs
    assert [job.id for job in dead] == [third, second, first]
    assert str(dead[0].error) == "ValueError: too small"
    assert (await app.jobs.list("state:failed queue:other")).jobs == ()
    assert await app.jobs.resume([first, 999_999]) == {first: "resumed", 999_999: "unknown"}
    assert app.jobs.retry_sync([second]) == {second: "retried"}
    assert observer.job(second)["state"] == "ready"
    assert await app.jobs.delete(third) == {third: "deleted"}
    assert (await app.jobs.list("state:failed")).jobs == ()


async def test_a_job_that_is_cancelled_while_it_waits_is_logged_where_it_is_cancelled(
    app: App, work: Job[[int], int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "holdfast")
    handles = [await work.using(delay="1h").enqueue(number) for number in range(22)]
    await app.jobs.cancel([handles[0].id, 999_999], reason="out of stock")
    assert caplog.messages == [
        f'job cancelled while it waited: job={handles[0].id} kind=work queue=mail reason="out of stock"'
    ]
    caplog.clear()
    await app.jobs.cancel([handle.id for handle in handles])
    assert len(caplog.messages) == 21
    assert caplog.messages[-1] == (
        'more jobs cancelled while they waited: count=1 reason="cancelled on request"'
    )
