"""A worker that was frozen for longer than its lease begins nothing of what it had claimed before."""

from typing import Any

import pytest

from acceptance.books import Books
from acceptance.held_statements import NO_CLAIM, locked, someone_waits
from acceptance.workers import Workers
from support.waiting import until

pytestmark = pytest.mark.machine  # workers in processes of their own


@pytest.mark.parametrize("kind", ["pay_once", "pay_once_in_a_thread"])
async def test_a_thawed_worker_begins_no_handler_of_a_job_that_has_ended(
    shop: Any, books: Books, workers: Workers, dsn: str, kind: str
) -> None:
    """The reply to its claim waits in the socket while it is frozen, and is read when it wakes."""
    sleeper = await workers.start(lease=2, beat=0.4)
    with locked(dsn, NO_CLAIM):
        handles = await shop.app.enqueue_many([getattr(shop, kind).call(number) for number in range(10)])
        await someone_waits(books, "claim")
        sleeper.freeze()
    await until(lambda: books.leases(sleeper.id) == 10, "the claim is committed, and its reply unread")
    other = await workers.start(lease=2)
    await books.all_finished(10)
    assert {books.state(handle.id) for handle in handles} == {"failed"}
    sleeper.thaw()
    await until(lambda: books.workers(sleeper.pid), "the worker registers again")
    await other.stop()
    await (await shop.greet.enqueue("sleeper")).result("30s")  # behind all that it had claimed before
    assert books.executions() == 0
    await sleeper.stop()


async def test_a_worker_that_thaws_right_before_its_handlers_calls_none_of_them(
    shop: Any, books: Books, workers: Workers
) -> None:
    """It is frozen with ten runs in its event loop, which are all that it does first when it wakes: before
    anything can tell it that they are not its own any more.
    """
    sleeper = await workers.start(lease=2, beat=0.4)
    handles = await shop.app.enqueue_many([shop.pay_once_behind_a_hook.call(number) for number in range(10)])
    await until(lambda: books.lines("held up"), "the first one is about to begin")
    await until(lambda: books.leases(sleeper.id) == 10, "all are claimed")
    sleeper.freeze()
    other = await workers.start(lease=2)
    await books.all_finished(10)
    assert {books.state(handle.id) for handle in handles} == {"failed"}
    books.open_gate("hook")
    sleeper.thaw()
    await until(
        lambda: books.executions() or len(sleeper.lines("WARNING", "lease lost, could not begin")) == 10,
        "it says so, or calls one",
    )
    assert books.executions() == books.effects() == 0
    await sleeper.stop()
    await other.stop()
