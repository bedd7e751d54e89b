"""Killed workers: their unfinished runs start elsewhere, and finished ones do not run again."""

from typing import Any

import pytest

from acceptance.books import Books
from acceptance.workers import WorkerProcess, Workers
from support.waiting import until


@pytest.mark.requirement("S1.4", "S2.35", "S4.3", "S4.16")
async def test_a_worker_killed_in_the_middle_of_a_thousand_jobs_loses_and_repeats_nothing(
    shop: Any, books: Books, workers: Workers
) -> None:
    one, other = await workers.start_several(2, lease=2)
    await shop.app.enqueue_many([shop.pay.call(number) for number in range(1_000)])
    await until(lambda: books.executions(pid=one.pid) >= 100, "one worker is in the middle of it")
    await frozen_with_leases(one, books)
    one.kill()
    await books.all_finished(1_000)
    await other.stop()
    books.assert_balanced(1_000)
    books.assert_effects_once(1_000)
    assert books.value("select count(*) from holdfast.ledger where outcome = 'retried'") > 0


@pytest.mark.machine
@pytest.mark.requirement("S4.3", "S4.16")
async def test_a_worker_killed_in_the_middle_of_its_batches_loses_and_repeats_nothing(
    shop: Any, books: Books, workers: Workers
) -> None:
    one, other = await workers.start_several(2, lease=2)
    await shop.app.enqueue_many([shop.pay_together.call(number) for number in range(1_000)])
    await until(lambda: books.executions(pid=one.pid) >= 100, "one worker is in the middle of it")
    await frozen_with_leases(one, books)
    one.kill()
    await books.all_finished(1_000)
    await other.stop()
    books.assert_balanced(1_000)
    books.assert_effects_once(1_000)
    assert books.value("select count(*) from holdfast.ledger where outcome = 'retried'") > 0


@pytest.mark.machine
@pytest.mark.requirement("S4.3")
async def test_a_worker_killed_while_a_batch_gathers_has_claimed_nothing(
    shop: Any, books: Books, workers: Workers
) -> None:
    [one] = await workers.start_several(1, lease=2)
    handle = await shop.file_together.enqueue(1)
    await shop.pay.enqueue(1)
    await books.all_finished(1)
    assert books.state(handle.id) == "ready"
    one.kill()
    assert books.leases() == 0
    [other] = await workers.start_several(1, lease=2)
    await shop.file_together.enqueue(2)
    await books.all_finished(3)
    await other.stop()
    books.assert_balanced(3)
    assert [line.attempt for line in books.lines("filed")] == [1, 1]


async def frozen_with_leases(worker: WorkerProcess, books: Books) -> None:
    """Stopped while it holds something, so that it can be killed at such a moment."""

    def is_caught() -> bool:
        worker.freeze()
        if books.leases(worker.id):
            return True
        worker.thaw()
        return False

    await until(is_caught, "it holds something")
