"""What operators do with jobs: cancel, retry, resume, rerun, reschedule, reprioritise, move, delete."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Flow, Job, Retry, Secret
from holdfast.domain.redaction import MASK
from holdfast.errors import InvalidInput, JobEnded, JobNotFound, QueueNotFound
from support.blocking_in_a_loop import both_colours
from support.waiting import until


@pytest.fixture
def work(app: App) -> Job[..., int]:
    @app.job(queue="mail", retry=Retry(max_attempts=1), tags=["basic"], timeout="7m")
    async def work(number: int = 0) -> int:
        if number < 0:
            raise ValueError("too small")
        return number

    return work


async def state_of(app: App, job: int) -> str:
    return (await app.jobs.show(job)).summary.state


def audited(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(
            "select action, by, target, reason, counts from holdfast.audit order by id"
        ).fetchall()


def held_by_another(dsn: str, statement: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(dsn)
    connection.execute(statement.encode())
    return connection


@both_colours
async def test_an_action_answers_for_each_job_and_leaves_an_entry(
    app: App, work: Job[..., int], dsn: str
) -> None:
    first, second, third = [(await work.using(delay="1h").enqueue(n)).id for n in range(3)]
    assert await app.jobs.cancel([first, 99], reason="wrong price", by="ann") == {
        first: "cancelled",
        99: "unknown",
    }
    assert app.jobs.cancel_sync(second) == {second: "cancelled"}
    assert await app.jobs.cancel(first) == {first: "final"}
    assert await app.jobs.delete([]) == {}
    assert await state_of(app, third) == "scheduled"
    assert audited(dsn) == [
        ("cancel", "ann", f"jobs {first}, 99", "wrong price", {"cancelled": 1, "unknown": 1}),
        ("cancel", "python", f"job {second}", "cancelled on request", {"cancelled": 1}),
        ("cancel", "python", f"job {first}", "cancelled on request", {"final": 1}),
    ]


async def test_an_action_that_is_rolled_back_leaves_no_entry(app: App, work: Job[..., int], dsn: str) -> None:
    job = (await work.using(delay="1h").enqueue(1)).id
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        assert await app.jobs.cancel(job, conn=connection) == {job: "cancelled"}
        await connection.rollback()
    assert await state_of(app, job) == "scheduled"
    assert audited(dsn) == []


async def test_failed_jobs_are_retried_and_resumed(app: App, work: Job[..., int]) -> None:
    jobs = [(await work.enqueue(-1)).id for _ in range(2)]
    async with app.worker(queues={"mail": 2}):
        for job in jobs:
            with pytest.raises(JobEnded):
                await app.handle(job).result("60s")
    assert await app.jobs.retry(jobs[0]) == {jobs[0]: "retried"}
    assert await app.jobs.resume(jobs[1]) == {jobs[1]: "resumed"}
    assert [await state_of(app, job) for job in jobs] == ["ready", "ready"]
    assert await app.jobs.retry(jobs) == dict.fromkeys(jobs, "unknown"), "they have not failed"


@pytest.mark.parametrize("delay", [None, "3h"], ids=["ready", "scheduled"])
async def test_a_waiting_job_is_rescheduled_with_its_attempts(
    app: App, work: Job[..., int], delay: str | None, dsn: str
) -> None:
    handle = await (work.using(delay=delay) if delay else work).enqueue(5)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update holdfast.ready set attempt = 3")
        connection.execute("update holdfast.scheduled set attempt = 3")
    assert await app.jobs.reschedule(handle.id, "2h") == {handle.id: "rescheduled"}
    shown = (await app.jobs.show(handle.id)).summary
    assert (shown.state, shown.attempt) == ("scheduled", 3)
    assert shown.run_at is not None
    assert abs(shown.run_at - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=5)
    assert await app.jobs.reschedule(handle.id, datetime(2020, 1, 1, tzinfo=UTC)) == {
        handle.id: "rescheduled"
    }
    shown = (await app.jobs.show(handle.id)).summary
    assert (shown.state, shown.attempt, shown.queue, shown.priority) == ("ready", 3, "mail", 5)


async def test_an_earlier_time_wakes_the_leader(app: App, work: Job[..., int]) -> None:
    handle = await work.using(delay="3h").enqueue(5)
    async with app.worker(queues={"mail": 1}):
        assert await app.jobs.reschedule(handle.id, "10ms") == {handle.id: "rescheduled"}
        assert await handle.result("60s") == 5


async def test_a_job_is_not_rescheduled_past_its_deadline(app: App, work: Job[..., int]) -> None:
    job = (await work.using(deadline="1h").enqueue(1)).id
    assert await app.jobs.reschedule(job, "2h") == {job: "too_late"}
    assert await state_of(app, job) == "ready"


async def test_jobs_move_to_another_queue_with_their_unique_keys(app: App, work: Job[..., int]) -> None:
    ready = (await work.using(unique="a").enqueue(1)).id
    later = (await work.using(unique="b", delay="1h").enqueue(2)).id
    taken = (await work.using(unique="c").enqueue(3)).id
    holder = (await work.using(unique="c", queue="bulk", delay="1h").enqueue(4)).id
    assert await app.jobs.move([ready, later, taken, holder], "bulk", create=True) == {
        ready: "moved",
        later: "moved",
        taken: "duplicate",
        holder: "moved",
    }
    assert {job.id: job.queue for job in (await app.jobs.list()).jobs} == {
        ready: "bulk", later: "bulk", taken: "mail", holder: "bulk",
    }  # fmt: skip
    for key, job in (("a", ready), ("b", later), ("c", holder)):
        assert (await work.using(unique=key, queue="bulk").enqueue(9)).id == job
    assert (await work.using(unique="a").enqueue(9)).is_new, "its key in the old queue is free"
    async with app.worker(queues={"bulk": 1}):
        assert await app.handle(ready).result("60s") == 1
        await app.jobs.reschedule(later, "0s")
        assert await app.handle(later).result("60s") == 2


async def test_jobs_get_another_priority(app: App, work: Job[..., int]) -> None:
    job = (await work.enqueue(1)).id
    assert await app.jobs.reprioritise(job, 0) == {job: "changed"}
    assert (await app.jobs.show(job)).summary.priority == 0
    with pytest.raises(InvalidInput, match="priority"):
        await app.jobs.reprioritise(job, 10)


async def test_ended_and_waiting_jobs_are_deleted_with_all_that_is_known_of_them(
    app: App, work: Job[..., int], dsn: str
) -> None:
    dead, done = (await work.using(unique="d").enqueue(-1)).id, (await work.enqueue(1)).id
    async with app.worker(queues={"mail": 2}):
        await app.handle(done).result("60s")
        with pytest.raises(JobEnded):
            await app.handle(dead).result("60s")
    ready, later = (await work.using(unique="r").enqueue(1)).id, (await work.using(delay="1h").enqueue(1)).id
    jobs = [dead, done, ready, later]
    assert await app.jobs.delete(jobs) == dict.fromkeys(jobs, "deleted")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for table in ("job", "ready", "scheduled", "ledger", "dead", "unique_key", "saved", "checkpoint"):
            assert connection.execute(f"select count(*) from holdfast.{table}".encode()).fetchone() == (0,), (
                table
            )
    assert await app.jobs.delete(jobs) == dict.fromkeys(jobs, "unknown")


async def test_what_runs_or_waits_in_a_flow_is_left_alone(app: App, work: Job[..., int]) -> None:
    release = asyncio.Event()

    @app.job(queue="mail")
    async def block(ctx: Context) -> None:
        await release.wait()

    @app.flow(queue="mail")
    async def parent(flow: Flow) -> int:
        return await flow.call(work.using(queue="nowhere"), 1)

    running, flow = (await block.enqueue()).id, (await parent.enqueue()).id
    async with app.worker(queues={"mail": 2}):

        async def are_there() -> bool:
            return [await state_of(app, job) for job in (running, flow)] == ["running", "waiting"]

        await until(are_there)
        [child] = (await app.jobs.list(f"flow:{flow}")).jobs
        left = {running: "running", flow: "waiting"}
        assert await app.jobs.delete([running, flow, child.id]) == {**left, child.id: "awaited"}
        assert await app.jobs.move([running, flow], "bulk", create=True) == left
        assert await app.jobs.reschedule([running, flow], "1h") == left
        assert await state_of(app, child.id) == "ready"
        release.set()
        await app.handle(running).result("60s")
        assert await app.jobs.move(running, "bulk", create=True) == {running: "final"}


async def test_a_row_that_another_transaction_holds_is_busy_and_nobody_waits(
    app: App, work: Job[..., int], dsn: str
) -> None:
    job = (await work.using(delay="1h").enqueue(1)).id
    with held_by_another(dsn, f"select from holdfast.scheduled where job = {job} for update"):
        assert await app.jobs.reschedule(job, "2h") == {job: "busy"}
        assert await app.jobs.move(job, "bulk", create=True) == {job: "busy"}
        assert await app.jobs.delete(job) == {job: "busy"}
    assert await state_of(app, job) == "scheduled"


async def test_a_job_is_run_again_as_a_new_one_with_the_same_policy(app: App, work: Job[..., int]) -> None:
    handle = await work.using(unique="once", priority=2).enqueue(7)
    async with app.worker(queues={"mail": 1}):
        await handle.result("60s")
        again = await app.jobs.rerun(handle.id)
        assert again != handle.id
        assert await app.handle(again).result("60s") == 7
        before, after = await app.jobs.show(handle.id), await app.jobs.show(again)
    same = ("kind", "queue", "priority", "max_attempts", "tags")
    assert [getattr(before.summary, name) for name in same] == [getattr(after.summary, name) for name in same]
    assert (after.timeout, after.unique_key) == (timedelta(minutes=7), None)
    with pytest.raises(JobNotFound):
        await app.jobs.rerun(99)


async def test_edited_arguments_keep_a_secret_that_was_not_replaced(app: App) -> None:
    charged = []

    @app.job
    async def charge(order: int, card: Secret[str]) -> None:
        charged.append((order, card))

    handle = await charge.enqueue(1, card="4111-1111")
    with pytest.raises(InvalidInput, match="no worker has told what is secret"):
        await app.jobs.rerun(handle.id, args={"order": 2, "card": MASK})
    async with app.worker():
        await handle.result("60s")

        async def is_known() -> bool:
            return bool((await app.jobs.show(handle.id)).args != MASK)

        await until(is_known)
        shown = (await app.jobs.show(handle.id)).args
        for edited in ({**shown, "order": 2}, {"order": 3, "card": "4222"}):
            await app.handle(await app.jobs.rerun(handle.id, args=edited)).result("60s")
    assert charged == [(1, "4111-1111"), (2, "4111-1111"), (3, "4222")]


@pytest.mark.parametrize(
    ("verb", "given", "told"),
    [
        ("cancel", ("42",), "not a job id"),
        ("cancel", (True,), "True"),
        ("reschedule", (1, "soon"), "not a length of time"),
        ("reschedule", (1, "-2h"), "length of time"),
        ("reschedule", (1, datetime(2026, 1, 1)), "time zone"),  # noqa: DTZ001
        ("move", (1, ""), "queue"),
        ("rerun", ("1",), "1"),
    ],
)
async def test_bad_input_is_refused(app: App, verb: str, given: tuple[Any, ...], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        await getattr(app.jobs, verb)(*given)
    with pytest.raises(InvalidInput, match="who does it"):
        await app.jobs.cancel(1, by=" ")


async def test_a_handle_and_a_job_of_a_list_stand_for_their_id(app: App) -> None:
    @app.job(queue="mail")
    async def work(number: int) -> None: ...

    first, second, third = [await work.using(delay="1h").enqueue(number) for number in range(3)]
    [listed] = (await app.jobs.list(f"id:{third.id}")).jobs
    assert (await app.jobs.show(first)).summary.id == first.id
    assert (await app.jobs.explain(listed)).reason == (await first.explain()).reason == "scheduled"
    assert await asyncio.to_thread(first.explain_sync) == await app.jobs.explain(first)
    answers = await app.jobs.reprioritise([first, second.id, listed], 1)
    assert answers == dict.fromkeys([first.id, second.id, third.id], "changed")
    assert await app.jobs.cancel(first) == {first.id: "cancelled"}
    copy = await app.jobs.rerun(second)
    assert (await app.jobs.show(copy)).args == {"number": 1}
    for wrong in (object(), "7", 1.5, True, [first, None]):
        with pytest.raises(InvalidInput, match="is not a"):
            await app.jobs.cancel(wrong)  # type: ignore[arg-type]


async def test_jobs_are_not_moved_to_a_queue_that_nobody_knows(app: App) -> None:
    @app.job(queue="mail")
    async def work() -> None: ...

    job = await work.using(delay="1h").enqueue()
    with pytest.raises(QueueNotFound, match=r'the queue "mial".*did you mean "mail".*create=True'):
        await app.jobs.move(job, "mial")
    with pytest.raises(QueueNotFound, match='the queue "mial"'):
        await app.operations.preview("move", "kind:work", queue="mial")
    with pytest.raises(QueueNotFound, match='the queue "mial"'):
        await app.operations.start("move", "kind:work", queue="mial")
    assert await app.operations.list() == []
    assert await app.jobs.move(job, "later", create=True) == {job.id: "moved"}
    begun = await app.operations.start("move", "kind:work", queue="never", create=True)
    assert (await app.operations.finish(begun.id)).counts == {"moved": 1}
    assert await app.jobs.move(job, "mail") == {job.id: "moved"}, "the app's own code names it"
