"""Signals: the first drains, the second stops at once, and nothing that was claimed is forgotten."""

from typing import Any

import pytest

from acceptance.books import Books
from acceptance.workers import Workers
from support.waiting import until


@pytest.mark.requirement("S2.45")
async def test_a_worker_told_to_stop_finishes_what_it_runs_and_claims_no_more(
    shop: Any, books: Books, workers: Workers
) -> None:
    leaving = await workers.start(slots=3)
    running = [await shop.wait_then_pay.enqueue("go") for _ in range(3)]
    await until(lambda: books.executions() == 3, "all slots are taken")
    waiting = [await shop.pay.enqueue(number) for number in range(10)]
    leaving.terminate()
    other = await workers.start()
    await until(lambda: books.finished() == 10, "the other one does what waits")
    assert not leaving.has_ended
    books.open_gate("go")
    assert await leaving.exit_code() == 0
    await books.all_finished(13)
    await other.stop()
    assert books.executions(pid=leaving.pid) == 3
    assert all(books.outcomes(handle.id) == ["succeeded"] for handle in running + waiting)
    assert leaving.lines("worker stopped", "released=0")
    books.assert_balanced(13)
    books.assert_effects_once(13)


@pytest.mark.requirement("S2.37", "S2.45", "S4.20")
async def test_what_does_not_end_within_the_grace_is_released_with_its_attempt_refunded(
    shop: Any, books: Books, workers: Workers
) -> None:
    leaving = await workers.start(grace=0.3)
    slow = await shop.wait_then_pay.enqueue("go")
    await until(lambda: books.executions() == 1, "it runs")
    await leaving.stop()
    assert leaving.lines("worker stopped", "released=1")
    assert not leaving.lines("ERROR") + leaving.lines("WARNING")
    assert books.outcomes(slow.id) == ["released"]
    assert books.run("select attempt from holdfast.ready where job = %s", slow.id) == [(0,)]
    assert not books.run("select id from holdfast.worker")
    books.open_gate("go")
    other = await workers.start()
    await books.all_finished(1)
    await other.stop()
    assert [line.attempt for line in books.lines()] == [1, 1]
    books.assert_balanced(1)
    books.assert_effects_once(1)


@pytest.mark.requirement("S2.45", "S4.20")
async def test_a_second_signal_does_not_wait_for_the_grace(shop: Any, books: Books, workers: Workers) -> None:
    leaving = await workers.start(grace=600)
    slow = [await shop.wait_then_pay.enqueue("go") for _ in range(5)]
    await until(lambda: books.executions() == 5, "they run")
    leaving.terminate()
    leaving.interrupt()
    assert await leaving.exit_code() == 0
    assert leaving.lines("worker stopped", "released=5")
    assert all(books.outcomes(handle.id) == ["released"] for handle in slow)
    assert books.leases() == 0


@pytest.mark.requirement("S2.45")
async def test_a_thread_that_does_not_end_does_not_keep_the_process_alive(
    shop: Any, books: Books, workers: Workers
) -> None:
    leaving = await workers.start(grace=0.3)
    endless = await shop.ponder.enqueue("never")
    await until(lambda: books.executions() == 1, "it runs")
    leaving.terminate()
    assert await leaving.exit_code() == 0
    assert books.outcomes(endless.id) == ["released"]


@pytest.mark.requirement("S2.45")
async def test_a_signal_in_the_middle_of_many_jobs_leaves_all_of_them_to_others(
    shop: Any, books: Books, workers: Workers
) -> None:
    leaving, other = await workers.start_several(2, grace=0.05)
    await shop.app.enqueue_many([shop.pay.call(number) for number in range(400)])
    await until(lambda: books.executions(pid=leaving.pid) >= 50, "it is in the middle of it")
    leaving.terminate()
    assert await leaving.exit_code() == 0
    assert books.leases(leaving.id) == 0
    await books.all_finished(400)
    await other.stop()
    assert not books.value("select count(*) from holdfast.ledger where outcome = 'retried'")
    books.assert_balanced(400)
    books.assert_effects_once(400)
