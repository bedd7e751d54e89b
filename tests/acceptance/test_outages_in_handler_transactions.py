"""Outages around ctx.transaction() and a flow's checkpoint: no job with attempts left fails."""

from collections.abc import Callable
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from holdfast import App, Context, Flow, Job, Retry
from support.engine import Engine
from support.outages import CODES, begin_outage, failures
from support.waiting import until

RETRY = Retry(max_attempts=5, backoff="10ms", on=KeyError)
ENDED = "select count(*) from holdfast.jobs where state in ('succeeded', 'failed')"


async def check_tried_again(
    dsn: str, books: Books, table: str, code: str, declare: Callable[[App], Job[[], Any]]
) -> None:
    """Writes to the table fail for a second with this code. The job succeeds all the same."""
    with Engine.on(dsn, now=None) as engine:
        begin_outage(engine.connection, table, code, 1)
        async with App(dsn) as app:
            job = declare(app)
            async with working(app):
                handle = await job.enqueue()
                await until(lambda: books.value(ENDED), "it ends")
            assert books.state(handle.id) == "succeeded"
        assert failures(engine.connection) > 1, "the outage was met"


@pytest.mark.parametrize("code", CODES)
async def test_an_outage_at_the_commit_of_a_transaction_is_tried_again_whatever_on_says(
    dsn: str, books: Books, code: str
) -> None:
    def declare(app: App) -> Job[[], None]:
        @app.job(retry=RETRY)
        async def pay(ctx: Context) -> None:
            async with ctx.transaction():
                pass

        return pay

    await check_tried_again(dsn, books, "ledger", code, declare)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("is_thread", [False, True])
async def test_nor_does_it_fail_a_job_whose_handler_raises_its_own_error_for_it(
    dsn: str, books: Books, code: str, is_thread: bool
) -> None:
    def declare(app: App) -> Job[[], None]:
        @app.job(name="awaited", retry=RETRY)
        async def awaited(ctx: Context) -> None:
            try:
                async with ctx.transaction():
                    pass
            except Exception as error:
                raise RuntimeError("mine") from error

        @app.job(name="plain", retry=RETRY)
        def plain(ctx: Context) -> None:
            try:
                with ctx.transaction():
                    pass
            except Exception as error:
                raise RuntimeError("mine") from error

        return plain if is_thread else awaited

    await check_tried_again(dsn, books, "ledger", code, declare)


@pytest.mark.parametrize("code", CODES)
async def test_an_outage_at_a_checkpoint_fails_no_flow(dsn: str, books: Books, code: str) -> None:
    def declare(app: App) -> Job[[], int]:
        @app.flow(retry=RETRY)
        async def order(flow: Flow) -> int:
            return await flow.step("reserve", lambda: 7)

        return order

    await check_tried_again(dsn, books, "checkpoint", code, declare)


@pytest.mark.parametrize("code", CODES)
async def test_an_outage_at_the_commit_of_a_flows_transaction_fails_no_flow(
    dsn: str, books: Books, code: str
) -> None:
    def declare(app: App) -> Job[[], None]:
        @app.flow(retry=RETRY)
        async def order(flow: Flow) -> None:
            async with flow.transaction("book"):
                pass

        return order

    await check_tried_again(dsn, books, "checkpoint", code, declare)
