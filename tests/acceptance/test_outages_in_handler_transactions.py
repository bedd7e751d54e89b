"""Outages around ctx.transaction() and a flow's checkpoint: no job with attempts left fails."""

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from holdfast import App, Context, Flow, Retry
from support.engine import Engine
from support.outages import CODES, begin_outage, failures
from support.waiting import until

ENDED = "select count(*) from holdfast.jobs where state in ('succeeded', 'failed')"


@pytest.mark.parametrize("code", CODES)
async def test_an_outage_at_the_commit_of_a_transaction_is_tried_again_whatever_on_says(
    dsn: str, books: Books, code: str
) -> None:
    with Engine.on(dsn, now=None) as engine:
        begin_outage(engine.connection, "ledger", code, 1)
        async with App(dsn) as app:

            @app.job(retry=Retry(max_attempts=5, backoff="10ms", on=KeyError))
            async def pay(ctx: Context) -> None:
                async with ctx.transaction():
                    pass

            async with working(app):
                handle = await pay.enqueue()
                await until(lambda: books.value(ENDED), "it ends")
            assert books.state(handle.id) == "succeeded"
        assert failures(engine.connection) > 1, "the outage was met"


@pytest.mark.parametrize("code", CODES)
async def test_an_outage_at_a_checkpoint_fails_no_flow(dsn: str, books: Books, code: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        begin_outage(engine.connection, "checkpoint", code, 1)
        async with App(dsn) as app:

            @app.flow(retry=Retry(max_attempts=5, backoff="10ms", on=KeyError))
            async def order(flow: Flow) -> int:
                return await flow.step("reserve", lambda: 7)

            async with working(app):
                handle = await order.enqueue()
                await until(lambda: books.value(ENDED), "it ends")
            assert books.state(handle.id) == "succeeded"
        assert failures(engine.connection) > 1, "the outage was met"


@pytest.mark.parametrize("code", CODES)
async def test_an_outage_at_the_commit_of_a_flows_transaction_fails_no_flow(
    dsn: str, books: Books, code: str
) -> None:
    with Engine.on(dsn, now=None) as engine:
        begin_outage(engine.connection, "checkpoint", code, 1)
        async with App(dsn) as app:

            @app.flow(retry=Retry(max_attempts=5, backoff="10ms", on=KeyError))
            async def order(flow: Flow) -> None:
                async with flow.transaction("book"):
                    pass

            async with working(app):
                handle = await order.enqueue()
                await until(lambda: books.value(ENDED), "it ends")
            assert books.state(handle.id) == "succeeded"
        assert failures(engine.connection) > 1, "the outage was met"
