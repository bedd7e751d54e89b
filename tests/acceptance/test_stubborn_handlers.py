"""Handlers that go on after they were told to stop: never beside their own retry, and never unreported."""

import asyncio
import threading
from datetime import timedelta

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import NO_MORE, ONCE_MORE, ledger, working
from holdfast import App, Context
from holdfast.domain.retention import Retention
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.conversation import hold_blocking
from holdfast.storage.chores import rescue_overdue
from support.engine import SCHEMA
from support.waiting import until

Logged = pytest.LogCaptureFixture
THREAD = 'still running after its timeout: plain functions cannot be stopped, see isolate="process": job='


def told(caplog: Logged, beginning: str) -> int:
    return sum(record.getMessage().startswith(beginning) for record in caplog.records)


async def test_a_job_is_not_tried_again_beside_its_own_thread(dsn: str, books: Books, caplog: Logged) -> None:
    may_end, runs = threading.Event(), []
    async with App(dsn) as app:

        @app.job(retry=ONCE_MORE, timeout="200ms")
        def ponder(ctx: Context) -> str:
            runs.append(ctx.attempt)
            if ctx.attempt == 1:
                may_end.wait(20)
            return f"attempt {ctx.attempt}"

        async with working(app, slots=2):
            handle = await ponder.enqueue()
            await until(lambda: told(caplog, THREAD) == 1, "it is told")
            assert (runs, books.state(handle.id)) == ([1], "running")
            may_end.set()
            assert await handle.result("20s") == "attempt 2"
    first, second = ledger(app, books, handle.id)
    assert (first["outcome"], first["error"]["code"], second["outcome"]) == (
        "retried",
        "timeout",
        "succeeded",
    )
    assert told(caplog, THREAD) == 1


async def test_a_run_that_was_taken_away_is_not_followed_by_another_beside_its_thread(
    dsn: str, books: Books
) -> None:
    """As the leader does with a run that is long past its timeout."""
    may_end, runs = threading.Event(), []
    async with App(dsn) as app:

        @app.job(retry=ONCE_MORE, timeout="200ms")
        def ponder(ctx: Context) -> None:
            runs.append(ctx.attempt)
            may_end.wait(30)

        async with working(app, slots=2, beat=0.1):
            handle = await ponder.enqueue()
            await until(lambda: runs == [1], "it runs")
            with BlockingDatabase(dsn) as database:

                def take_away() -> bool:
                    with database.transaction() as transaction:
                        overdue = rescue_overdue(SCHEMA, luck=0.0, grace=timedelta(), retention=Retention())
                        return bool(hold_blocking(overdue, transaction.run))

                await until(take_away, "it is taken away")
            books.run("select pg_notify('holdfast.due', '')")
            await until(lambda: books.outcomes(handle.id) == ["retried", "snoozed"], "it is put off")
            assert runs == [1]
            may_end.set()
    put_off = ledger(app, books, handle.id)[1]
    assert "still runs in this process" in put_off["error"]["message"]
    assert books.state(handle.id) == "scheduled"


async def test_a_coroutine_that_swallows_its_cancellation_is_told_of_and_ends_as_timed_out(
    dsn: str, books: Books, caplog: Logged
) -> None:
    may_end = asyncio.Event()
    async with App(dsn) as app:

        @app.job(retry=NO_MORE, timeout="200ms")
        async def insist() -> str:
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue
            return "done"

        @app.job
        async def follow() -> None: ...

        async with working(app, slots=1):
            handle = await insist.enqueue()
            line = "still running after its timeout: its handler has not ended"
            await until(lambda: told(caplog, line) == 1, "it is told")
            follower = await follow.enqueue()
            assert (books.state(handle.id), books.state(follower.id)) == ("running", "ready")
            may_end.set()
            await follower.result("20s")
            await books.all_finished(2)
    [only] = ledger(app, books, handle.id)
    assert (only["outcome"], only["error"]["code"]) == ("failed", "timeout")
    assert told(caplog, line) == 1


async def test_what_a_handler_raises_after_a_cancel_request_is_a_cancelled_run(
    dsn: str, books: Books
) -> None:
    running = asyncio.Event()
    async with App(dsn) as app:

        @app.job(retry=NO_MORE)
        async def break_down() -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ConnectionError("interrupted") from None

        async with working(app):
            handle = await break_down.enqueue()
            await running.wait()
            await handle.cancel("the customer has left")
            await books.all_finished(1)
    [only] = ledger(app, books, handle.id)
    assert only["outcome"] == "cancelled"
    assert only["error"] == {"code": "cancelled", "message": "the customer has left"}


async def test_a_shutdown_does_not_wait_for_ever_for_a_thread_past_its_timeout(
    dsn: str, books: Books
) -> None:
    may_end, running = threading.Event(), threading.Event()
    async with App(dsn) as app:

        @app.job(retry=ONCE_MORE, timeout="200ms")
        def ponder(ctx: Context) -> None:
            while not ctx.is_cancelled:
                may_end.wait(0.01)
            running.set()
            may_end.wait(60)

        async with working(app, grace=0.2):
            handle = await ponder.enqueue()
            await until(running.is_set, "it goes on after its timeout")
        assert books.outcomes(handle.id) == ["retried"]
        may_end.set()
