"""A worker that loses a lease stops its run, and trusts no lease for too long."""

import asyncio
from datetime import UTC, datetime, timedelta
from time import monotonic

import pytest

from acceptance.books import Books
from acceptance.held_statements import held_up
from acceptance.in_process_workers import working
from holdfast import App, Context, Retry
from holdfast.domain.retention import Retention
from holdfast.errors import LeaseLost
from holdfast.storage import chores
from support.engine import SCHEMA, Engine
from support.waiting import until

AGAIN = Retry(max_attempts=5, backoff="0s")
LEFT = "select extract(epoch from expires_at - clock_timestamp()) from holdfast.worker"


def take_away(dsn: str) -> None:
    """All runs, as a leader elsewhere would take them that finds them overdue."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with Engine.on(dsn, now=None) as engine:
        taken = engine.hold(
            chores.rescue_overdue(SCHEMA, luck=0, grace=timedelta(), now=tomorrow, retention=Retention())
        )
        assert taken
        engine.connection.execute("update holdfast.scheduled set run_at = now() + interval '1 hour'")


@pytest.mark.requirement("S3.25")
async def test_a_run_that_is_taken_away_is_cancelled_and_the_other_runs_go_on(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        running, may_end = asyncio.Event(), asyncio.Event()
        cancelled: list[int] = []
        told: list[int] = []

        async def on_lease_lost(ctx: Context) -> None:
            told.append(ctx.job.id)

        @app.job(retry=AGAIN, on_lease_lost=on_lease_lost)
        async def wait(ctx: Context) -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(ctx.job.id)
                raise

        @app.job
        async def go_on() -> str:
            await may_end.wait()
            return "done"

        async with working(app, lease=60, is_leading_allowed=False):
            lost = await wait.enqueue()
            await running.wait()
            take_away(dsn)
            kept = await go_on.enqueue()
            await until(lambda: cancelled == [lost.id], "the handler is cancelled")
            await until(lambda: told == [lost.id], "its hook is called")
            may_end.set()
            assert await kept.result("20s") == "done"
        assert cancelled == [lost.id]
    assert books.outcomes(lost.id) == ["retried"]
    assert books.outcomes(kept.id) == ["succeeded"]


@pytest.mark.requirement("S2.36", "S4.3")
async def test_a_run_that_ended_but_could_not_be_settled_is_said_to_be_done_again(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(dsn) as app:
        running, may_end = asyncio.Event(), asyncio.Event()

        @app.job(retry=AGAIN)
        async def pay() -> str:
            running.set()
            await may_end.wait()
            return "paid"

        # Its beats come so seldom that it learns of its loss only when it settles.
        async with working(app, lease=600, beat=300, is_leading_allowed=False):
            handle = await pay.enqueue()
            await running.wait()
            take_away(dsn)
            may_end.set()
            await until(lambda: said(caplog, handle.id), "it says so")
    [line] = said(caplog, handle.id)
    assert "could not settle as succeeded" in line
    assert "the job may run again and repeat this run's effects" in line
    assert books.outcomes(handle.id) == ["retried"]


@pytest.mark.requirement("S2.35", "S4.21")
async def test_a_handlers_transaction_is_rolled_back_when_its_run_was_taken_away(
    dsn: str, books: Books
) -> None:
    async with App(dsn) as app:
        written, may_end = asyncio.Event(), asyncio.Event()
        refused: list[LeaseLost] = []

        @app.job(retry=AGAIN)
        async def pay(ctx: Context) -> None:
            try:
                async with ctx.transaction() as conn:
                    await conn.execute("insert into effect (job, run) values (%s, 1)", (ctx.job.id,))
                    written.set()
                    await may_end.wait()
            except LeaseLost as error:
                refused.append(error)
                raise

        async with working(app, lease=600, beat=300, is_leading_allowed=False):
            handle = await pay.enqueue()
            await written.wait()
            take_away(dsn)
            may_end.set()
            await until(lambda: refused, "its commit is refused")
    assert books.effects() == 0
    assert books.outcomes(handle.id) == ["retried"]


def said(caplog: pytest.LogCaptureFixture, job: int) -> list[str]:
    return [line for line in caplog.messages if "lease lost" in line and f"job={job} " in line]


@pytest.mark.timeout(180)
@pytest.mark.requirement("S1.10")
async def test_a_lease_is_counted_from_before_its_renewal_was_sent(dsn: str, books: Books) -> None:
    """The reply comes three seconds late, and then none at all: a worker that counted from the reply would go
    on for two seconds after the database may give its runs to others.
    """
    async with App(dsn) as app:
        running = asyncio.Event()
        stopped_at: list[float] = []

        @app.job(retry=AGAIN)
        async def wait() -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped_at.append(monotonic())
                raise

        async with working(app, lease=6.0, beat=0.4, is_leading_allowed=False):
            await wait.enqueue()
            await running.wait()
            async with held_up(dsn, books, "holdfast.worker", seconds=3.0):
                ends = monotonic() + float(books.value(LEFT))
                await until(lambda: stopped_at, "the handler is stopped", within=20)
                assert stopped_at[0] < ends
