"""Replies that never arrive: what the server did is found out, not done again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.held_statements import NO_CLAIM, locked, someone_waits
from acceptance.workers import WorkerProcess, Workers
from support.proxy import Proxy
from support.waiting import until


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with Proxy.before(dsn) as proxy:
        yield proxy


@pytest.fixture
async def worker(dsn: str, proxy: Proxy, workers: Workers) -> WorkerProcess:
    return await workers.start(dsn=proxy.dsn(dsn), lease=30, poll=2)


async def cut_off(proxy: Proxy) -> None:
    """The server has answered, and the connections die before the worker reads the answer."""
    await proxy.reply_swallowed()
    proxy.pass_through()
    proxy.reset()


WAITING_INSERT = """
select 1 from pg_stat_activity
 where wait_event_type = 'Lock' and query like 'insert into effect%' and datname = current_database()
"""


@asynccontextmanager
async def completing(dsn: str, books: Books, job: int, statement: str = "complete") -> AsyncIterator[None]:
    """The job has run, and the statement that completes it waits until the block ends."""
    await until(lambda: books.executions() == 1, "it runs")
    with locked(dsn, "select job from holdfast.lease where job = %s for update", job):
        books.open_gate("go")
        await someone_waits(books, statement)
        yield


@pytest.mark.requirement("S4.20", "S2.23")
async def test_a_claim_whose_reply_was_cut_off_is_released_with_its_attempt_refunded(
    dsn: str, shop: Any, books: Books, worker: WorkerProcess, proxy: Proxy
) -> None:
    with locked(dsn, NO_CLAIM):
        job = await shop.pay.enqueue(1)
        await someone_waits(books, "claim")
        proxy.swallow_replies()
    await until(lambda: books.leases(worker.id) == 1, "the claim has taken effect")
    await cut_off(proxy)
    await books.all_finished(1)
    assert books.outcomes(job.id) == ["released", "succeeded"]
    assert [line.attempt for line in books.lines()] == [1]
    assert len(worker.lines("WARNING", "releasing 1 runs that were claimed but never arrived")) == 1
    await worker.stop()
    books.assert_balanced(1)
    books.assert_effects_once(1)


@pytest.mark.requirement("S4.16", "S2.28")
async def test_a_settle_whose_reply_was_cut_off_is_known_to_have_settled(
    dsn: str, shop: Any, books: Books, worker: WorkerProcess, proxy: Proxy
) -> None:
    job = await shop.wait_then_return.enqueue("go")
    async with completing(dsn, books, job.id):
        proxy.swallow_replies()
    await books.all_finished(1)
    await cut_off(proxy)
    await until(lambda: worker.lines("INFO", "attempt succeeded", f"job={job.id}"), "it is told so")
    await worker.stop()
    assert books.executions() == 1
    assert books.outcomes(job.id) == ["succeeded"]
    assert len(worker.lines(f"job={job.id}")) == 1
    books.assert_balanced(1)


@pytest.mark.requirement("S2.35")
async def test_a_transaction_cut_off_before_its_commit_is_rolled_back_and_run_again(
    dsn: str, shop: Any, books: Books, worker: WorkerProcess, proxy: Proxy
) -> None:
    job = await shop.wait_then_pay.enqueue("go")
    await until(lambda: books.executions() == 1, "it runs")
    with locked(dsn, "lock table effect in share mode"):
        books.open_gate("go")
        await until(lambda: books.run(WAITING_INSERT), "its own statement waits")
        proxy.reset()
    await books.all_finished(1)
    await worker.stop()
    assert books.outcomes(job.id) == ["retried", "succeeded"]
    assert [line.attempt for line in books.lines()] == [1, 2]
    assert worker.lines("attempt retried", f"job={job.id}")
    books.assert_balanced(1)
    books.assert_effects_once(1)


@pytest.mark.requirement("S2.35")
async def test_a_completion_that_was_sent_with_its_commit_counts_though_its_reply_was_cut_off(
    dsn: str, shop: Any, books: Books, worker: WorkerProcess, proxy: Proxy
) -> None:
    job = await shop.wait_then_pay.enqueue("go")
    async with completing(dsn, books, job.id, "complete_plain"):
        proxy.reset()
    await books.all_finished(1)
    await worker.stop()
    assert books.outcomes(job.id) == ["succeeded"]
    assert books.executions() == 1
    books.assert_balanced(1)
    books.assert_effects_once(1)


@pytest.mark.requirement("S2.35")
async def test_a_commit_whose_reply_was_cut_off_is_not_run_again(
    dsn: str, shop: Any, books: Books, worker: WorkerProcess, proxy: Proxy
) -> None:
    books.run(
        "create function wait_at_commit() returns trigger language plpgsql as"
        " $$ begin perform pg_advisory_xact_lock(1); return null; end $$;"
        "create constraint trigger wait_at_commit after insert on effect deferrable initially deferred"
        " for each row execute function wait_at_commit()"
    )
    with locked(dsn, "select 1 from pg_advisory_xact_lock(1)"):
        job = await shop.pay.enqueue(1)
        await until(
            lambda: books.run("select 1 from pg_locks where locktype = 'advisory' and not granted"),
            "the commit is under way",
        )
        proxy.swallow_replies()
    await books.all_finished(1)
    await cut_off(proxy)
    await until(lambda: worker.lines("INFO", "attempt succeeded", f"job={job.id}"), "it is told so")
    await worker.stop()
    assert books.outcomes(job.id) == ["succeeded"]
    assert books.executions() == 1
    books.assert_balanced(1)
    books.assert_effects_once(1)
