"""Cancelling: a waiting job ends at once, a running one is told within a second."""

import asyncio
import threading
import time
from time import monotonic
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from holdfast import App, Context
from holdfast.job import Job
from holdfast.worker.attempts import Attempts
from holdfast.worker.callers import Threads
from holdfast.worker.claimed_run import Stop
from holdfast.worker.worker import Worker
from support.waiting import block_until, until

# Longer than any test waits here: so it is the notification that brings the request.
SELDOM = {"lease": 120, "beat": 50, "poll": 50}
PROMPT = 10  # long before the next beat, however busy the machine is


@pytest.mark.requirement("S3.25")
async def test_a_cancel_request_reaches_a_running_coroutine_by_notification(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        running, cancelled = asyncio.Event(), asyncio.Event()

        @app.job
        async def wait() -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async with working(app, **SELDOM):
            # The beat that follows the registration could bring the request as well.
            await until(
                lambda: books.run("select 1 from holdfast.worker where beat_at > started_at"), "it beats"
            )
            handle = await wait.enqueue()
            await running.wait()
            assert await handle.cancel() == "requested"
            began = monotonic()
            await until(cancelled.is_set, "the handler is cancelled", within=PROMPT)
            took = monotonic() - began
            await books.all_finished(1, within=PROMPT)
    print(f"a cancel request took {took * 1000:.0f} ms")  # noqa: T201  # for a reader who measures
    assert books.outcomes(handle.id) == ["cancelled"]


@pytest.mark.parametrize("reason", [Stop.CANCEL, Stop.SHUTDOWN])
async def test_a_run_that_is_told_to_stop_before_its_first_step_ends_and_gives_its_slot_back(
    dsn: str, books: Books, reason: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Attempts.begin
    begun: list[int] = []

    def begin_and_stop(attempts: Attempts, *claimed: Any) -> None:
        """As when a heartbeat's answer stands in the event loop's line before the run's first step."""
        begin(attempts, *claimed)
        if not begun:
            attempts.tell_to_stop(reason)
        begun.append(1)

    monkeypatch.setattr(Attempts, "begin", begin_and_stop)
    async with App(dsn) as app:

        @app.job
        async def quick() -> None: ...

        first, second = await quick.enqueue(), await quick.enqueue()
        async with working(app, slots=1):
            await books.all_finished(2, within=PROMPT)
    expected = ["cancelled"] if reason is Stop.CANCEL else ["released", "succeeded"]
    assert books.outcomes(first.id) == expected
    assert books.outcomes(second.id) == ["succeeded"]


@pytest.mark.requirement("S3.25")
async def test_a_cancel_request_is_seen_by_a_running_thread(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        running, seen = threading.Event(), threading.Event()

        @app.job
        def ponder(ctx: Context) -> None:
            running.set()
            deadline = time.monotonic() + 20
            while not ctx.is_cancelled and time.monotonic() < deadline:
                time.sleep(0.01)
            seen.set()

        async with working(app, **SELDOM):
            handle = await ponder.enqueue()
            await until(running.is_set, "it runs")
            assert await handle.cancel() == "requested"
            await until(seen.is_set, "the thread sees it", within=PROMPT)
            await books.all_finished(1, within=PROMPT)
    assert books.outcomes(handle.id) == ["cancelled"]


async def test_a_plain_function_that_never_saw_the_request_has_done_its_work(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        pay, running, may_end = payment(app)
        async with working(app, **SELDOM) as worker:
            handle = await pay.enqueue()
            await until(running.is_set, "it runs")
            assert await handle.cancel() == "requested"
            await until(lambda: was_told(worker), "the run is told", within=PROMPT)
            may_end.set()
            assert await handle.result("10s") == "paid"
    assert books.outcomes(handle.id) == ["succeeded"]


async def test_one_that_returns_in_the_very_moment_of_the_request_has_done_its_work(
    dsn: str, books: Books
) -> None:
    async with App(dsn) as app:
        pay, running, may_end = payment(app)
        async with working(app, **SELDOM) as worker:
            handle = await pay.enqueue()
            await until(running.is_set, "it runs")
            assert worker._attempts
            [claimed] = worker._attempts.runs.values()
            threads = worker._attempts._runner._callers["thread"]
            assert isinstance(threads, Threads)
            call = threads._calls[claimed.run]
            # All in one turn of the event loop: the attempt hears of the request when the thread is over.
            worker._attempts.cancel([claimed.run])
            may_end.set()
            block_until(lambda: call.is_over)
            assert await handle.result("10s") == "paid"
            assert threads._calls == {}
    assert books.outcomes(handle.id) == ["succeeded"]


def payment(app: App) -> tuple[Job[[], str], threading.Event, threading.Event]:
    """A plain function that never looks at its context; set when it runs, and to be set when it may end."""
    running, may_end = threading.Event(), threading.Event()

    @app.job
    def pay(ctx: Context) -> str:
        running.set()
        may_end.wait(20)
        return "paid"

    return pay, running, may_end


def was_told(worker: Worker) -> bool:
    assert worker._attempts
    return any(claimed.stop is not None for claimed in worker._attempts.runs.values())


async def test_a_waiting_job_is_cancelled_at_once_and_never_runs(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        runs = 0

        @app.job
        async def count() -> None:
            nonlocal runs
            runs += 1

        ready, later = await count.enqueue(), await count.using(delay="1h").enqueue()
        assert await app.jobs.cancel([ready.id, later.id]) == {ready.id: "cancelled", later.id: "cancelled"}
        last = await count.enqueue()
        async with working(app):
            await last.result("10s")
    assert runs == 1
    assert books.state(ready.id) == books.state(later.id) == "cancelled"
    assert error_of(books, ready.id)["code"] == "cancelled"


async def test_a_handler_that_succeeds_in_spite_of_a_cancel_request_has_succeeded(
    dsn: str, books: Books
) -> None:
    async with App(dsn) as app:
        running = asyncio.Event()

        @app.job
        async def insist() -> str:
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "done all the same"
            raise AssertionError("unreachable")

        async with working(app, **SELDOM):
            handle = await insist.enqueue()
            await running.wait()
            await handle.cancel()
            assert await handle.result("10s") == "done all the same"
    assert books.outcomes(handle.id) == ["succeeded"]


def error_of(books: Books, job: int) -> dict[str, str]:
    error: dict[str, str] = books.value("select error from holdfast.ledger where job = %s", job)
    return error
