"""Behind a transaction-mode pooler: no LISTEN, so the worker polls, and says so once."""

from typing import Any

import pytest

from acceptance.books import Books
from acceptance.workers import Workers
from support.pgbouncer import pgbouncer
from support.waiting import until

pytestmark = [pytest.mark.machine, pytest.mark.root]


@pytest.mark.requirement("S2.19", "S3.6")
async def test_a_worker_behind_a_transaction_pooler_works_by_polling(
    dsn: str, shop: Any, books: Books, workers: Workers
) -> None:
    with pgbouncer(dsn, "transaction") as front:
        worker = await workers.start(dsn=front, poll=0.3)
        await until(lambda: books.leader() == worker.id, "it leads")
        await shop.app.enqueue_many([shop.pay.call(number) for number in range(100)])
        await shop.pay.using(delay="500ms").enqueue(100)
        await books.all_finished(101)
        held = await shop.wait_then_return.enqueue("never")
        await until(lambda: books.executions(held.id) == 1, "it runs")
        assert await held.cancel() == "requested"
        await books.all_finished(102)
        await worker.stop()
    assert books.outcomes(held.id) == ["cancelled"]
    assert len(worker.lines("WARNING", "transaction-mode pooler", "polling")) == 1
    books.assert_effects_once(101)
