"""Frozen workers: their runs are taken over, their late results refused, and they work again afterwards."""

from typing import Any

import pytest

from acceptance.books import Books
from acceptance.workers import WorkerProcess, Workers
from support.waiting import until

pytestmark = pytest.mark.machine  # workers in processes of their own


async def taken_over(shop: Any, books: Books, workers: Workers, kind: str) -> tuple[WorkerProcess, int]:
    """A worker frozen in the middle of a job that another worker runs by now; and that job."""
    sleeper = await workers.start(lease=2)
    handle = await getattr(shop, kind).enqueue("go")
    await until(lambda: books.executions(pid=sleeper.pid) == 1, "it runs")
    if kind == "pay_slowly":
        await until(lambda: books.lines("written"), "it has written")
    await until(lambda: books.leader() == sleeper.id, "it leads")
    sleeper.freeze()
    other = await workers.start(lease=2)
    await until(lambda: books.executions(pid=other.pid) == 1, "the other one runs it")
    assert books.leader() == other.id
    return sleeper, handle.id


async def is_useful_again(shop: Any, books: Books, worker: WorkerProcess) -> None:
    """It has a new identity, and runs jobs under it."""
    await until(lambda: books.workers(worker.pid), "the worker registers again")
    assert books.workers(worker.pid)[0] > worker.id
    before = books.executions(pid=worker.pid)
    while books.executions(pid=worker.pid) == before:
        handles = await shop.app.enqueue_many([shop.pay.call(number) for number in range(20)])
        for handle in handles:
            await handle.result("20s")


@pytest.mark.requirement("S1.4", "S1.28", "S3.1", "S3.4", "S4.21")
async def test_a_frozen_leader_that_wakes_after_its_lease_is_refused_and_goes_on_working(
    shop: Any, books: Books, workers: Workers
) -> None:
    sleeper, job = await taken_over(shop, books, workers, "wait_then_pay")
    sleeper.thaw()
    await until(lambda: sleeper.lines("WARNING", "worker lost its lease", "aborted=1"), "it learns of it")
    await until(lambda: sleeper.lines("WARNING", "lease lost, could not settle", f"job={job}"), "it says so")
    books.open_gate("go")
    await books.all_finished(1)
    assert books.outcomes(job) == ["retried", "succeeded"]
    error = books.value("select error from holdfast.ledger where job = %s and outcome = 'retried'", job)
    assert error["code"] == "lease_lost"
    await is_useful_again(shop, books, sleeper)
    await sleeper.stop()
    books.assert_effects_once(books.finished())


@pytest.mark.requirement("S1.27", "S1.28", "S1.29", "S2.35", "S4.21")
async def test_what_a_frozen_worker_was_about_to_commit_is_rolled_back(
    shop: Any, books: Books, workers: Workers
) -> None:
    sleeper, job = await taken_over(shop, books, workers, "pay_slowly")
    books.open_gate("go")
    await books.all_finished(1)
    assert books.effects() == 1
    sleeper.thaw()
    await until(lambda: sleeper.lines("WARNING", "lease lost, could not", f"job={job}"), "it is refused")
    await is_useful_again(shop, books, sleeper)
    await sleeper.stop()
    assert books.outcomes(job) == ["retried", "succeeded"]
    books.assert_effects_once(books.finished())


@pytest.mark.requirement("S3.1", "S3.2", "S3.4")
async def test_a_frozen_leader_is_replaced_and_what_is_due_is_promoted(
    shop: Any, books: Books, workers: Workers
) -> None:
    leader = await workers.start()
    await until(lambda: books.leader() == leader.id, "it leads")
    other = await workers.start()
    later = await shop.pay.using(delay="500ms").enqueue(1)
    leader.freeze()
    await books.all_finished(1)
    assert books.leader() == other.id
    assert books.executions(later.id, pid=other.pid) == 1
    await other.stop()


@pytest.mark.requirement("S3.5")
async def test_a_leader_that_leaves_gives_up_its_place_at_once(books: Books, workers: Workers) -> None:
    leader = await workers.start(leader_lease=60)
    await until(lambda: books.leader() == leader.id, "it leads")
    await leader.stop()
    assert books.leader() is None
