"""A handler that blocks the event loop for longer than the lease loses nothing, and is named."""

import asyncio
import time
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.held_statements import NO_CLAIM, locked, someone_waits
from acceptance.in_process_workers import working
from acceptance.workers import Workers
from holdfast import App
from support.waiting import until


@pytest.mark.requirement("S1.12", "S4.15")
async def test_a_handler_that_blocks_the_loop_for_twice_the_lease_keeps_everything(
    shop: Any, books: Books, workers: Workers
) -> None:
    blocked = await workers.start(lease=3, beat=0.4)
    other = await workers.start(lease=3, beat=0.4, slots=1)
    waiting = await shop.wait_then_return.enqueue("go")
    await until(lambda: books.executions() == 1, "the other one, or this one, runs it")
    # In one batch, so that a claim may be under way while the loop is blocked.
    handles = await shop.app.enqueue_many(
        [shop.block.call(6.0), *(shop.pay.call(number) for number in range(20))]
    )
    books.open_gate("go")
    assert await handles[0].result("30s") == "blocked"
    await waiting.result("30s")
    await books.all_finished(22)
    await asyncio.gather(blocked.stop(), other.stop())
    assert books.executions() == 22
    assert all(books.outcomes(handle.id) == ["succeeded"] for handle in [waiting, *handles])
    assert not blocked.lines("lost") + other.lines("lost")
    books.assert_balanced(22)
    books.assert_effects_once(20)


@pytest.mark.requirement("S1.12")
async def test_a_claim_that_is_answered_while_the_loop_is_blocked_is_not_given_back(
    dsn: str, shop: Any, books: Books, workers: Workers
) -> None:
    worker = await workers.start(lease=10, beat=0.3)
    blocker = await shop.block_later.enqueue("block", 2.0)
    await until(lambda: books.executions() == 1, "it runs")
    with locked(dsn, NO_CLAIM):
        claimed = await shop.pay.enqueue(1)
        await someone_waits(books, "claim")
        books.open_gate("block")
        await until(lambda: books.lines("blocking"), "the loop is blocked")
    await books.all_finished(2)
    await worker.stop()
    assert books.outcomes(blocker.id) == books.outcomes(claimed.id) == ["succeeded"]
    assert books.executions(claimed.id) == 1
    assert not worker.lines("never arrived")
    books.assert_balanced(2)


async def test_the_job_that_blocks_the_loop_is_named_once_and_so_is_the_place(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(dsn) as app:

        @app.job
        async def compute() -> None:
            time.sleep(3)  # noqa: ASYNC251  # what is not to be done

        async with working(app):
            await (await compute.enqueue()).result("20s")
    [line] = [text for text in caplog.messages if text.startswith("event loop blocked")]
    assert "kind=compute" in line
    assert 'at="test_blocked_event_loop.py:' in line
    assert "in compute" in line
