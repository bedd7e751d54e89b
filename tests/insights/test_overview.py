"""`app.overview`: each reason for attention, produced by a real situation, and what else it shows."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Job, Retry
from holdfast.errors import InvalidInput
from holdfast.insights.overview_records import Attention, Overview
from holdfast.storage.chores import fold
from holdfast.storage.workers import register
from support.blocking_in_a_loop import both_colours
from support.waiting import until


@pytest.fixture
def work(app: App) -> Job[[int], int]:
    @app.job(queue="mail", retry=Retry(max_attempts=1))
    async def work(number: int) -> int:
        if number < 0:
            raise ValueError("too small")
        return number

    return work


def changed(dsn: str, text: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(text.encode())


async def told(app: App, reason: str, subject: str | None, **asked: Any) -> Attention:
    """What is told for this reason, once it is."""
    found: list[Attention] = []

    async def is_so() -> bool:
        found[:] = [each for each in (await app.overview(**asked)).attention if each.reason == reason]
        return bool(found)

    await until(is_so)
    [one] = found
    assert one.subject == subject
    return one


async def led(app: App) -> None:
    async def is_led() -> bool:
        return (await app.overview()).leader is not None

    await until(is_led)


@both_colours
async def test_nothing_needs_attention_while_all_is_well(app: App, work: Job[[int], int]) -> None:
    assert [each.reason for each in (await app.overview()).attention] == ["no_worker"], "nothing else yet"
    async with app.worker(queues={"mail": 2}):
        await led(app)
        await (await work.enqueue(1)).result("60s")
        found = await app.overview()
        blocking = app.overview_sync()
    assert found.attention == blocking.attention == ()
    assert (found.workers, blocking.workers) == (1, 1)
    assert [queue.name for queue in found.queues] == ["mail"]


async def test_jobs_without_any_worker(app: App, work: Job[[int], int]) -> None:
    await app.enqueue_many([work.call(1), work.call(2)])
    one = await told(app, "no_worker", None)
    assert str(one) == "No worker is alive, and 2 jobs wait. Start one with: holdfast worker -A …"


async def test_workers_of_which_none_leads(app: App, dsn: str) -> None:
    await app.run(
        register(app.schema, host="web-1", pid=7, version="1", queues=["mail"], kinds=["work"], slots=10)
    )
    assert (await told(app, "no_leader", None)).sentence.startswith("No worker leads: delayed jobs")


async def test_a_queue_with_a_backlog_that_no_worker_serves(app: App, work: Job[[int], int]) -> None:
    await work.using(queue="pdf").enqueue(1)
    async with app.worker(queues={"mail": 1}):
        one = await told(app, "queue_unserved", "pdf")
    assert one.sentence == '1 job waits in the queue "pdf", which no live worker serves.'
    assert one.advice == "Start one with: holdfast worker -A … -q pdf"


async def test_a_kind_that_no_worker_of_the_queue_knows(app: App, work: Job[[int], int], dsn: str) -> None:
    async with App(dsn) as other:

        @other.job(queue="mail")
        async def render() -> None: ...

        await render.enqueue()
    async with app.worker(queues={"mail": 1}):
        one = await told(app, "kind_unknown", "render")
    assert one.sentence == 'Jobs of kind "render" wait, which no live worker knows.'


async def test_a_kind_that_only_workers_of_other_queues_know(app: App, work: Job[[int], int]) -> None:
    await work.using(queue="pdf").enqueue(1)
    await app.run(
        register(app.schema, host="web-1", pid=7, version="1", queues=["pdf"], kinds=["render"], slots=1)
    )
    async with app.worker(queues={"mail": 1}):
        one = await told(app, "kind_unknown", "work")
    assert one.sentence == 'Jobs of kind "work" wait in the queue "pdf", whose live workers do not know it.'


async def test_jobs_that_wait_for_a_quiet_worker(app: App, work: Job[[int], int]) -> None:
    await work.enqueue(1)
    await app.run(
        register(
            app.schema,
            host="web-1",
            pid=7,
            version="1",
            queues=["mail"],
            kinds=["work"],
            slots=1,
            activity="quiet",
        )
    )
    one = await told(app, "workers_quiet", "mail")
    assert one.sentence == (
        'Jobs of kind "work" wait in the queue "mail", where every worker that could run them is quiet or '
        "stopping."
    )


async def test_a_schedule_of_a_kind_that_no_worker_knows(app: App, work: Job[[int], int], dsn: str) -> None:
    async with App(dsn) as other:

        @other.job(queue="mail")
        async def render() -> None: ...

        await other.schedules.put("nightly", render.call(), every="1h")
    async with app.worker(queues={"mail": 1}):
        one = await told(app, "kind_unknown", "render")
    assert one.sentence.startswith('The schedule "nightly" fires jobs of kind "render"')


async def test_a_job_that_has_been_due_for_too_long(app: App, work: Job[[int], int], dsn: str) -> None:
    release = asyncio.Event()

    @app.job(queue="mail")
    async def block() -> None:
        await release.wait()

    async with app.worker(queues={"mail": 1}):
        first = await block.enqueue()

        async def is_running() -> bool:
            return (await first.status()).state == "running"

        await until(is_running)
        await work.enqueue(1)
        assert (await app.overview()).attention == (), "it has just come"
        one = await told(app, "oldest_waiting", "mail", patience="1ms")
        release.set()
    assert one.sentence.startswith('A job in the queue "mail" has been due for ')
    assert one.sentence.endswith("; 1 job waits.")


async def test_a_retried_job_is_due_from_the_end_of_its_backoff(app: App, dsn: str) -> None:
    @app.job(queue="mail")
    async def work() -> None: ...

    await work.enqueue()
    changed(dsn, "update holdfast.job set created_at = now() - interval '3 days'")
    [queue] = (await app.overview()).queues
    assert queue.oldest_age is not None
    assert queue.oldest_age > timedelta(days=2)
    assert queue.oldest_wait is not None
    assert queue.oldest_wait < timedelta(hours=1)


async def test_a_jump_of_failures(app: App, work: Job[[int], int], dsn: str) -> None:
    async with app.worker(queues={"mail": 4}):
        before = await app.enqueue_many([work.call(1) for _ in range(20)])
        for handle in before:
            await handle.result("60s")
        await app.run(fold(app.schema))
        changed(dsn, "update holdfast.counter set minute = minute - interval '30 minutes'")
        await app.enqueue_many([work.call(-1) for _ in range(6)])

        async def are_dead() -> bool:
            return (await app.overview()).states.failed.count == 6

        await until(are_dead)
        await app.run(fold(app.schema))
        one = await told(app, "failure_rate", "work")
        found = await app.overview()
    assert one.sentence == (
        '100% of the runs of "work" failed in the last 10 minutes, 0% in the 50 minutes before.'
    )
    assert found.failed_last_hour == 6

    async def is_grouped() -> bool:
        return [group.last_hour for group in (await app.overview()).failures] == [6]

    async with app.worker(queues={"mail": 4}):
        await until(is_grouped)


async def test_as_many_failures_as_ever_are_no_jump(app: App, work: Job[[int], int], dsn: str) -> None:
    async with app.worker(queues={"mail": 4}):
        for shift in ("30 minutes", "0"):
            await app.enqueue_many([work.call(-1) for _ in range(6)])

            async def are_counted() -> bool:
                await app.run(fold(app.schema))
                overview = await app.overview()
                return overview.states.ready.count == overview.states.running.count == 0

            await until(are_counted)
            await app.run(fold(app.schema))
            changed(dsn, f"update holdfast.counter set minute = minute - interval '{shift}'")
        found = await app.overview()
    assert found.failed_last_hour == 12
    assert not [each for each in found.attention if each.reason == "failure_rate"]


async def test_plans_that_were_missed(app: App, work: Job[[int], int], dsn: str) -> None:
    await app.schedules.put("report", work.call(1), every="10m", missed="latest")
    changed(dsn, "update holdfast.schedule_scope set since_at = now() - interval '2 hours', next_at = now()")
    async with app.worker(queues={"mail": 1}):
        one = await told(app, "plans_missed", "report")
    assert one.sentence.startswith('The schedule "report" missed 1 plan in the last 24 hours, the last one ')
    assert one.advice == "See them: holdfast schedules history report --missed"


async def test_a_schedule_that_cannot_be_planned(app: App, work: Job[[int], int], dsn: str) -> None:
    await app.schedules.put("report", work.call(1), cron="0 7 * * *")
    changed(dsn, """update holdfast.schedule set timing = '{"cron": "61 * * * *"}', error = null""")
    changed(dsn, "update holdfast.schedule_scope set next_at = now()")
    async with app.worker(queues={"mail": 1}):
        one = await told(app, "schedule_error", "report")
    assert one.sentence.startswith('The schedule "report" cannot be planned: ')


async def test_a_paused_queue(app: App, work: Job[[int], int]) -> None:
    await work.enqueue(1)
    await app.queues.pause("mail", note="provider down", until="2h")
    async with app.worker(queues={"mail": 1}):
        await led(app)
        [one] = (await app.overview(patience="1ms")).attention
    assert (one.reason, one.subject) == ("queue_paused", "mail")
    assert one.sentence.endswith('("provider down"); 1 job waits.')
    assert one.advice == "Resume it with: holdfast queues resume mail"


async def test_a_worker_that_is_silent(app: App, work: Job[[int], int], dsn: str) -> None:
    [silent] = await app.run(
        register(app.schema, host="web-1", pid=7, version="1", queues=["mail"], kinds=["work"], slots=10)
    )
    changed(dsn, "update holdfast.worker set expires_at = now(), beat_at = now() - interval '40 s'")
    one = await told(app, "worker_silent", str(silent))
    assert one.sentence.startswith(f"Worker {silent} (process 7 on web-1) sent its last heartbeat 4")
    async with app.worker(queues={"mail": 1}):
        await until(lambda: is_given_up(app))


async def is_given_up(app: App) -> bool:
    told = [each.sentence for each in (await app.overview()).attention if each.reason == "worker_silent"]
    return bool(told) and told[0].endswith(", and its jobs were given to others.")


async def test_jobs_are_counted_by_state_and_capped(app: App, work: Job[[int], int]) -> None:
    await app.enqueue_many([work.call(n) for n in range(10_001)])
    await work.using(delay="1h").enqueue(1)
    states = (await app.overview()).states
    assert (str(states.ready), states.ready.has_more) == ("10,000+", True)
    assert [each.count for each in (states.scheduled, states.running, states.waiting, states.failed)] == [
        1,
        0,
        0,
        0,
    ]


async def test_throughput_is_that_of_the_minutes_that_are_over(
    app: App, work: Job[[int], int], dsn: str
) -> None:
    async with app.worker(queues={"mail": 4}):
        for handle in await app.enqueue_many([work.call(1) for _ in range(10)]):
            await handle.result("60s")
    await app.run(fold(app.schema))
    changed(dsn, "update holdfast.counter set minute = date_trunc('minute', now()) - interval '2 minutes'")
    changed(dsn, "update holdfast.beginning set minute = date_trunc('minute', now()) - interval '2 minutes'")
    found = await app.overview()
    assert (found.throughput.ended, found.throughput.started, found.throughput.failed) == (2.0, 2.0, 0.0)
    assert len(found.last_hour.points) in (60, 61)


async def test_the_next_fires_come_in_the_order_of_time(app: App, work: Job[[int], int]) -> None:
    at = datetime.now(UTC) + timedelta(hours=3)
    for hours in range(7):
        await app.schedules.put(f"s{hours}", work.call(hours), at=at - timedelta(minutes=hours))
    await app.schedules.pause("s6")
    async with app.worker(queues={"mail": 1}):

        async def are_planned() -> bool:
            fires = (await app.overview()).fires
            return len(fires) == 5 and fires[0].at > datetime.now(UTC) + timedelta(hours=1)

        await until(are_planned)
        found = await app.overview()
    assert [fire.schedule for fire in found.fires] == ["s5", "s4", "s3", "s2", "s1"]
    assert (found.fires[0].kind, found.fires[0].queue) == ("work", "mail")


@pytest.mark.parametrize(
    "ask",
    [
        lambda app: app.overview_sync(patience="0s"),
        lambda app: app.overview_sync(patience=5),
        lambda app: app.stats_sync("1 fortnight"),
        lambda app: app.stats_sync("1h", queue=""),
        lambda app: app.stats_sync("1h", until=datetime(2026, 1, 1)),  # noqa: DTZ001  # that is the point
    ],
)
def test_wrong_input_is_refused_before_anything_is_asked(ask: Callable[[App], Overview]) -> None:
    with pytest.raises(InvalidInput):
        ask(App("postgresql://nowhere.invalid/none"))
