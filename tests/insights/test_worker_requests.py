"""`app.workers.quiet`, `resume`, `stop` and `slots`: what a running worker does when an operator asks it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Job, WorkerOptions
from holdfast.errors import InvalidInput, WorkerNotFound, WorkerRefused
from holdfast.insights.workers import WorkerRecord
from holdfast.storage.workers import register
from holdfast.worker.lease_keeper import Beats
from support.blocking_in_a_loop import both_colours
from support.waiting import until

OFTEN = WorkerOptions(
    queues={"mail": 5}, poll="100ms", beats=Beats(timedelta(seconds=30), timedelta(milliseconds=200))
)


class Gate:
    """Jobs that run until they are let go."""

    def __init__(self, app: App) -> None:
        self.running = 0
        self.most = 0
        self._open = asyncio.Event()

        @app.job(queue="mail")
        async def hold(number: int) -> int:
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await self._open.wait()
            finally:
                self.running -= 1
            return number

        self.job: Job[[int], int] = hold

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(app: App) -> Gate:
    return Gate(app)


async def the_worker(app: App) -> WorkerRecord:
    [worker] = [each for each in await app.workers.list() if each.state == "live"]
    return worker


def is_so(app: App, claim: Callable[[WorkerRecord], bool]) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return claim(await the_worker(app))

    return holds


def stored(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


@both_colours
async def test_a_quiet_worker_keeps_what_it_runs_and_begins_nothing_until_it_is_resumed(
    app: App, gate: Gate, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.worker")
    first = await gate.job.enqueue(1)
    async with app.worker(queues={"mail": 5}):
        await until(lambda: gate.running == 1)
        worker = (await the_worker(app)).id
        asked = await app.workers.quiet(worker, by="ann", reason="deploy")
        assert asked.request is not None
        assert (asked.request.activity, asked.request.by, asked.request.reason) == ("quiet", "ann", "deploy")
        await until(is_so(app, lambda found: found.activity == "quiet"))
        second = await gate.job.enqueue(2)
        gate.open()
        assert await first.result("30s") == 1, "what ran goes on"
        found = await app.jobs.explain(second.id)
        assert found.reason == "workers_quiet"
        assert f"Only worker {worker} could run it, and it has been quiet for " in found.sentence
        assert ', as ann asked ("deploy").' in found.sentence
        assert found.advice == f"Go on with: holdfast workers resume {worker}"
        assert [(queue.name, queue.workers) for queue in await app.queues.list()] == [("mail", 0)]
        assert (await second.status()).state == "ready"
        report = await app.doctor()
        assert [each.advice for each in report.findings if each.code == "quiet_worker"] == [
            f"holdfast workers resume {worker}"
        ]
        assert app.workers.resume_sync(worker, by="bob") is True
        assert await second.result("30s") == 2
        assert await app.workers.resume(worker) is False, "it is not quiet any more"
        await until(is_so(app, lambda found: found.activity == "working"))
    assert stored(dsn, "select action, by, target, reason from holdfast.audit order by id") == [
        ("quiet worker", "ann", f"worker {worker}", "deploy"),
        ("resume worker", "bob", f"worker {worker}", None),
    ]
    assert "quiet: claiming nothing until told to go on" in caplog.text
    assert "going on: claiming again" in caplog.text
    assert stored(dsn, "select count(*) from holdfast.worker_request") == [(0,)], "it went with the worker"


async def test_without_notifications_a_heartbeat_brings_the_request(app: App, gate: Gate, dsn: str) -> None:
    async with app.worker(options=OFTEN):
        worker = (await the_worker(app)).id
        stored(
            dsn,
            "insert into holdfast.worker_request (worker, asked_at, activity)"
            f" values ({worker}, now(), 'quiet') returning 1",
        )
        await until(is_so(app, lambda found: found.activity == "quiet"))


@pytest.mark.parametrize("is_stop", [False, True], ids=["quiet", "stop"])
async def test_jobs_of_a_claim_that_was_under_way_still_run_and_none_after_them(
    app: App, dsn: str, is_stop: bool
) -> None:
    @app.job(queue="mail")
    async def work() -> int:
        return 1

    async with app.worker(options=OFTEN):
        worker = (await the_worker(app)).id
        async with await psycopg.AsyncConnection.connect(dsn) as other:
            await other.execute("lock table holdfast.lease in share mode")
            first = await work.enqueue()
            claiming = "wait_event_type = 'Lock' and query like '%holdfast.claim %'"
            await until(lambda: stored(dsn, f"select 1 from pg_stat_activity where {claiming}") != [])
            if is_stop:
                # It waits for its claim, though only for a few seconds: let go as soon as it says so.
                await app.workers.stop(worker)
                await until(is_so(app, lambda found: found.activity == "stopping"))
            else:
                await app.workers.quiet(worker)
                beat = (await the_worker(app)).beat_at
                await until(is_so(app, lambda found: found.beat_at > beat and found.activity == "working"))
        assert await first.result("30s") == 1, "its claim was under way"
        if not is_stop:
            await until(is_so(app, lambda found: found.activity == "quiet"))
        second = await work.enqueue()
    assert (await second.status()).state == "ready"


@pytest.mark.parametrize("is_thread", [False, True], ids=["coroutine", "thread"])
async def test_slots_grow_and_shrink_while_a_worker_runs(app: App, dsn: str, is_thread: bool) -> None:
    import threading

    release, running = threading.Event(), set[int]()

    if is_thread:

        @app.job(queue="mail")
        def hold(number: int) -> None:
            running.add(number)
            release.wait(60)

    else:

        @app.job(queue="mail")
        async def hold(number: int) -> None:
            running.add(number)
            await asyncio.to_thread(release.wait, 60)

    await app.enqueue_many([hold.call(number) for number in range(12)])
    async with app.worker(queues={"mail": 2}):
        try:
            await until(lambda: len(running) == 2)
            worker = (await the_worker(app)).id
            await app.workers.slots(worker, "mail", 6, by="ann")
            await until(lambda: len(running) == 6)
            shown = await app.workers.show(worker)
            assert (shown.slots, shown.queue_slots, shown.used) == (6, {"mail": 6}, 6)
            await app.workers.slots(worker, "mail", 1)
            await until(is_so(app, lambda found: found.slots == 1))
            assert len(running) == 6, "those that run are left alone"
        finally:
            release.set()
        await until(lambda: len(running) == 12)
    assert ("slots mail=6", "ann") in stored(dsn, "select action, by from holdfast.audit")


async def test_a_shrunk_queue_begins_nothing_before_it_is_below_its_number(app: App) -> None:
    gates = {number: asyncio.Event() for number in range(6)}
    running: set[int] = set()

    @app.job(queue="mail")
    async def hold(number: int) -> None:
        running.add(number)
        await gates[number].wait()
        running.discard(number)

    await app.enqueue_many([hold.call(number) for number in range(6)])
    async with app.worker(queues={"mail": 4}):
        await until(lambda: len(running) == 4)
        worker = (await the_worker(app)).id
        await app.workers.slots(worker, "mail", 2)
        await until(is_so(app, lambda found: found.slots == 2))
        began = sorted(running)
        for number in began[:2]:
            gates[number].set()
        await until(is_so(app, lambda found: found.used == 2))
        assert sorted(running) == began[2:], "two run, which is all that may"
        gates[began[2]].set()
        await until(lambda: len(running - set(began)) == 1)
        for event in gates.values():
            event.set()


@both_colours
async def test_a_stopped_worker_waits_for_its_jobs_and_leaves(app: App, gate: Gate, dsn: str) -> None:
    handle = await gate.job.enqueue(1)
    async with app.worker(queues={"mail": 5}) as running:
        await until(lambda: gate.running == 1)
        worker = (await the_worker(app)).id
        asked = await app.workers.stop(worker, grace="1h", by="ann", reason="old host")
        assert asked.request is not None
        assert asked.request.grace == timedelta(hours=1)
        await until(is_so(app, lambda found: found.activity == "stopping"))
        assert running.grace == timedelta(hours=1)
        later = await gate.job.enqueue(2)
        assert (await app.jobs.explain(later.id)).reason == "workers_stopping"
        for verb in (app.workers.quiet, app.workers.stop, app.workers.resume):
            with pytest.raises(WorkerRefused, match=f"worker {worker} cannot .*: it is stopping already"):
                await verb(worker)
        with pytest.raises(WorkerRefused, match="cannot get other slots: it is stopping already"):
            await app.workers.slots(worker, "mail", 3)
        gate.open()
        assert await handle.result("30s") == 1

        async def has_gone() -> bool:
            return await app.workers.list() == []

        await until(has_gone)
        assert (await later.status()).state == "ready", "nobody runs it"
        with pytest.raises(WorkerNotFound):
            await app.workers.stop(worker)
    assert stored(dsn, "select action, by, reason from holdfast.audit") == [
        ("stop worker", "ann", "old host")
    ]


async def test_now_gives_running_jobs_back_with_their_attempt(app: App, gate: Gate) -> None:
    handle = await gate.job.enqueue(1)
    async with app.worker(queues={"mail": 5}):
        await until(lambda: gate.running == 1)
        worker = (await the_worker(app)).id
        await app.workers.stop(worker, grace="1h")
        await until(is_so(app, lambda found: found.activity == "stopping"))
        assert gate.running == 1
        await app.workers.stop(worker, now=True)

        async def is_back() -> bool:
            status = await handle.status()
            return (status.state, status.attempt) == ("ready", 0)

        await until(is_back)


async def test_a_worker_that_lost_its_lease_stays_quiet_under_its_new_id(
    app: App, gate: Gate, dsn: str
) -> None:
    async with app.worker(options=OFTEN):
        before = (await the_worker(app)).id
        await app.workers.quiet(before, by="ann")
        await app.workers.slots(before, "mail", 3)
        await until(is_so(app, lambda found: (found.activity, found.slots) == ("quiet", 3)))
        stored(dsn, "update holdfast.worker set lost_at = now() returning 1")

        async def is_another() -> bool:
            return any(found.id != before for found in await app.workers.list())

        await until(is_another)
        after = await the_worker(app)
        assert (after.activity, after.slots) == ("quiet", 3)
        assert after.request is not None
        assert after.request.by == "ann"
        with pytest.raises(WorkerRefused, match="it is lost, and other workers run its jobs"):
            await app.workers.quiet(before)
        handle = await gate.job.enqueue(1)
        gate.open()
        assert await app.workers.resume(after.id)
        assert await handle.result("30s") == 1


async def test_a_request_in_a_transaction_that_stays_open_does_not_stop_the_heartbeat(
    app: App, gate: Gate, dsn: str
) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.worker(options=OFTEN))
        worker = await the_worker(app)
        connection = await stack.enter_async_context(await psycopg.AsyncConnection.connect(dsn))
        await app.workers.quiet(worker.id, conn=connection)
        await until(is_so(app, lambda found: found.beat_at - worker.beat_at > timedelta(seconds=1)))
        assert (await the_worker(app)).activity == "working", "it was not committed"
        await connection.commit()
        await until(is_so(app, lambda found: found.activity == "quiet"))


async def test_two_operators_do_not_undo_each_other(app: App, dsn: str) -> None:
    """Whoever asks second waits for the first, and is told what that one asked."""
    [worker] = await app.run(
        register(app.schema, host="a", pid=1, version="1", queues=["mail"], kinds=["send"], slots=1)
    )
    async with await psycopg.AsyncConnection.connect(dsn) as first:
        await app.workers.stop(worker, conn=first)
        second = asyncio.create_task(app.workers.quiet(worker))
        await until(
            lambda: (
                stored(dsn, "select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == [(1,)]
            )
        )
        await first.commit()
        with pytest.raises(WorkerRefused, match="it is stopping already"):
            await second


async def test_a_worker_of_an_older_release_cannot_be_asked(app: App, dsn: str) -> None:
    options = {"host": "a", "pid": 1, "version": "1", "queues": ["mail"], "kinds": ["send"], "slots": 1}
    [worker] = await app.run(register(app.schema, **options, activity=None))  # type: ignore[arg-type]
    with pytest.raises(WorkerRefused, match="send its process a signal"):
        await app.workers.quiet(worker)
    assert stored(dsn, "select count(*) from holdfast.audit") == [(0,)]


async def test_bad_input_is_refused(app: App) -> None:
    [worker] = await app.run(
        register(app.schema, host="a", pid=1, version="1", queues=["mail"], kinds=["send"], slots=1)
    )
    for verb in (app.workers.quiet, app.workers.resume, app.workers.stop):
        with pytest.raises(WorkerNotFound):
            await verb(worker + 1)
        with pytest.raises(InvalidInput):
            await verb("x")  # type: ignore[arg-type]
    for number in (0, -1, True, 100_001, "2"):
        with pytest.raises(InvalidInput, match="give 1 to 100000"):
            await app.workers.slots(worker, "mail", number)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r'does not serve the queue "mial"; did you mean "mail"\?'):
        await app.workers.slots(worker, "mial", 2)
    with pytest.raises(InvalidInput, match="grace"):
        await app.workers.stop(worker, grace="-1s")
    with pytest.raises(InvalidInput, match="by is empty"):
        await app.workers.quiet(worker, by=" ")
