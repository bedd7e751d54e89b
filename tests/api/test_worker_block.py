"""`async with app.worker():` beside an application's own work, and `app.run_worker()` as a program."""

import asyncio
import gc
import os
import signal
import threading
from typing import Any

import pytest

from api.observer import Observer
from holdfast import App, Context, JobStatus, WorkerOptions
from holdfast.errors import InvalidInput
from support.waiting import until


async def test_a_worker_runs_the_queues_of_its_apps_jobs(app: App, observer: Observer) -> None:
    @app.job(queue="mail")
    async def mail() -> str:
        return "mailed"

    @app.job
    def invoice() -> str:
        return "printed"

    async with app.worker():
        handles = [await mail.enqueue(), await invoice.enqueue()]
        assert [await handle.result(timeout="60s") for handle in handles] == ["mailed", "printed"]
        assert sorted(observer.value("select queues from holdfast.worker")) == ["default", "mail"]


async def test_a_worker_runs_the_queues_it_is_given_and_no_others(app: App) -> None:
    @app.job
    async def work() -> None: ...

    async with app.worker(queues={"here": 1}):
        elsewhere = await work.enqueue()
        await (await work.using(queue="here").enqueue()).result(timeout="60s")
        assert (await elsewhere.status()).state == "ready"


@pytest.mark.requirement("S2.24")
async def test_a_queue_runs_as_many_at_once_as_it_has_slots(app: App) -> None:
    running, most = 0, 0

    @app.job
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    async with app.worker(queues={"default": 3}):
        for handle in await app.enqueue_many(work.call() for _ in range(20)):
            await handle.result(timeout="60s")
    assert most == 3


async def test_a_thread_that_outlives_its_worker_is_not_begun_beside_by_the_next_one(
    app: App, observer: Observer
) -> None:
    begun, go = threading.Semaphore(0), threading.Event()

    @app.job
    def stubborn() -> None:
        begun.release()
        go.wait(60)

    async def is_put_off() -> bool:
        return (await handle.status()).state == "scheduled"

    try:
        async with app.worker(grace="10ms"):
            handle = await stubborn.enqueue()
            assert await asyncio.to_thread(begun.acquire, timeout=60)
        assert (await handle.status()).state == "ready"
        async with app.worker(grace="10ms"):
            await until(is_put_off)
        assert not begun.acquire(blocking=False)
        assert "still runs in this process" in observer.value(
            "select error->>'message' from holdfast.ledger order by run desc limit 1"
        )
    finally:
        go.set()


async def test_the_block_ends_when_what_runs_has_ended(app: App) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work() -> str:
        begun.set()
        await go.wait()
        return "done"

    async with app.worker():
        handle = await work.enqueue()
        await asyncio.wait_for(begun.wait(), 60)
        asyncio.get_running_loop().call_later(0.1, go.set)
    assert await handle.result(timeout="0s") == "done"


async def test_what_outlasts_the_grace_is_given_back_and_not_counted(app: App) -> None:
    begun = asyncio.Event()

    @app.job
    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app.worker(grace="0s"):
        handle = await work.enqueue()
        await asyncio.wait_for(begun.wait(), 60)
    status: JobStatus = await handle.status()
    assert (status.state, status.attempt) == ("ready", 0)


async def test_an_error_of_the_block_comes_out_as_it_is(app: App) -> None:
    @app.job
    async def work() -> None: ...

    with pytest.raises(KeyError, match="mine"):
        async with app.worker():
            raise KeyError("mine")


async def test_a_cancelled_start_leaves_no_worker_behind(dsn: str, observer: Observer) -> None:
    app = App(dsn)  # that has opened nothing of its own

    @app.job
    async def work() -> None: ...

    async def start() -> None:
        async with app.worker():
            await asyncio.Event().wait()

    for moment in range(8):
        starting = asyncio.create_task(start())
        for _ in range(moment * moment):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(starting, 60)
    assert [task.get_name() for task in asyncio.all_tasks() if "holdfast" in task.get_name()] == []
    gc.collect()  # psycopg leaves to it what was cancelled while connecting
    await asyncio.to_thread(observer.until_alone)


async def test_a_worker_that_dies_in_the_background_says_so_at_once(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job
    async def work() -> None: ...

    async def is_told() -> bool:
        return any("the worker has stopped" in record.message for record in caplog.records)

    async def block() -> None:
        async with app.worker() as worker:
            worker._options = None  # type: ignore[assignment]  # a mistake of ours, as no other ends a worker
            worker.stopping.ask()
            await until(is_told)

    with pytest.raises(AttributeError):
        await block()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_run_worker_runs_until_a_signal(app: App, number: signal.Signals) -> None:
    @app.job
    async def work(ctx: Context) -> int:
        return ctx.attempt

    handle = await work.enqueue()
    running = asyncio.create_task(app.run_worker())
    assert await handle.result(timeout="60s") == 1
    os.kill(os.getpid(), number)
    await asyncio.wait_for(running, 60)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"queues": {}}, "needs a queue"),
        ({"queues": {"": 1}}, "queue ''"),
        ({"queues": {"mail": 0}}, '"mail" has 0 slots'),
        ({"queues": {"mail": "many"}}, "slots"),
        ({"grace": 30}, "grace is 30"),
        ({"grace": "soon"}, "grace 'soon'"),
        ({"options": WorkerOptions(), "queues": {"mail": 1}}, "part of WorkerOptions"),
        ({"options": WorkerOptions(), "grace": "1s"}, "part of WorkerOptions"),
    ],
)
async def test_a_worker_with_bad_options_does_not_start(
    app: App, options: dict[str, Any], problem: str
) -> None:
    @app.job
    async def work() -> None: ...

    with pytest.raises(InvalidInput, match=problem):
        async with app.worker(**options):
            pytest.fail("it has started")
    with pytest.raises(InvalidInput, match=problem):
        await app.run_worker(**options)


async def test_worker_options_are_taken_whole(app: App, observer: Observer) -> None:
    @app.job(queue="mail")
    async def mail() -> str:
        return "mailed"

    async with app.worker(options=WorkerOptions(queues={"mail": 2})):
        assert await (await mail.enqueue()).result(timeout="60s") == "mailed"
        assert observer.value("select slots from holdfast.worker") == 2
