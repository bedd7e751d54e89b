"""What is counted over time is what the ledger says, also when workers are killed and their jobs rescued."""

from typing import Any

import pytest

from acceptance.books import Books
from acceptance.test_killed_workers import frozen_with_leases
from acceptance.workers import Workers
from support.waiting import until


@pytest.mark.machine  # workers in processes of their own
async def test_the_figures_are_those_of_the_ledger(shop: Any, books: Books, workers: Workers) -> None:
    one, other = await workers.start_several(2, lease=2)
    await shop.app.enqueue_many([shop.pay.call(number) for number in range(300)])
    await until(lambda: books.executions(pid=one.pid) >= 20, "one worker is in the middle of it")
    await frozen_with_leases(one, books)
    one.kill()
    await books.all_finished(300)
    rows = books.run("select outcome::text, count(*) from holdfast.ledger group by 1")
    ledger: dict[str, int] = {outcome: runs for outcome, runs in rows}  # noqa: C416  # rows of any width
    assert ledger["retried"] > 0, "the jobs of the killed worker were rescued"

    async def is_counted() -> bool:
        total = (await shop.app.stats("1h")).total
        return bool(total.outcomes == ledger and total.enqueued == 300)

    await until(is_counted)
    total = (await shop.app.stats("1h")).total
    runs = sum(ledger.values())
    assert (total.started, total.wait.runs, total.run.runs) == (runs, runs, runs)
    hours = (await shop.app.stats("1h", resolution="1h")).total
    assert (hours.outcomes, hours.enqueued, hours.started) == (ledger, 300, runs)
    await other.stop()
