"""A commit of ctx.transaction() whose reply is lost together with the lease: the ledger knows what became of
it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from holdfast import App, Context, Retry
from support.proxy import Proxy
from support.waiting import until

WRITE = "insert into effect (job, run) values (%s, %s)"


class Payment:
    """A job whose first attempt waits before its commit until a fault has begun."""

    def __init__(self, app: App, proxy: Proxy) -> None:
        self.proxy = proxy
        self.is_written, self.may_commit = asyncio.Event(), asyncio.Event()
        self.told: list[tuple[str, int]] = []
        self.first: Context | None = None
        self.job = app.job(
            name="pay",
            retry=Retry(max_attempts=5, backoff="0s"),
            on_success=lambda ctx: self.told.append(("success", ctx.attempt)),
            on_lease_lost=lambda ctx: self.told.append(("lost", ctx.attempt)),
        )(self._pay)

    async def _pay(self, ctx: Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(WRITE, [ctx.job.id, ctx.fencing_token])
            if ctx.attempt == 1:
                self.first = ctx
                self.is_written.set()
                await self.may_commit.wait()

    async def lease_is_lost(self) -> None:
        await until(lambda: self.first is not None and self.first.is_lost, "the worker gives its lease up")

    def end_the_fault(self) -> None:
        self.proxy.pass_through()
        self.proxy.reset()


@asynccontextmanager
async def paying(dsn: str) -> AsyncIterator[Payment]:
    async with Proxy.before(dsn) as proxy, App(proxy.dsn(dsn)) as app:
        payment = Payment(app, proxy)
        async with working(app, lease=2, beat=0.2):
            await payment.job.enqueue()
            await payment.is_written.wait()
            yield payment


@pytest.mark.requirement("S4.21")
@pytest.mark.parametrize("is_told_before", [True, False])
async def test_a_commit_that_took_effect_is_a_success_though_reply_and_lease_are_lost(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture, is_told_before: bool
) -> None:
    """The commit fails after the lease is lost, or before: then the settler finds the lease lost."""
    async with paying(dsn) as payment:
        payment.proxy.swallow_replies()
        payment.may_commit.set()
        await until(lambda: books.value("select count(*) from effect") == 1, "it commits")
        if is_told_before:
            payment.proxy.black_hole()
            payment.proxy.reset()
        await payment.lease_is_lost()
        payment.end_the_fault()
        await until(lambda: payment.told, "it is told")
    assert payment.told == [("success", 1)]
    assert "could not" not in caplog.text
    assert books.run("select outcome::text from holdfast.ledger") == [("succeeded",)]
    books.assert_effects_once(1)


async def test_a_commit_that_never_arrived_is_a_lost_run_and_is_done_again(dsn: str, books: Books) -> None:
    async with paying(dsn) as payment:
        payment.proxy.black_hole()
        payment.may_commit.set()
        await payment.lease_is_lost()
        payment.end_the_fault()
        await until(lambda: len(payment.told) == 2, "it is told")
    assert sorted(payment.told) == [("lost", 1), ("success", 2)]
    books.assert_effects_once(1)
