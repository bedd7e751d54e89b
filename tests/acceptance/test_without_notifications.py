"""With LISTEN off a worker polls: everything that a notification would start begins within one poll."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from acceptance.workers import Workers
from holdfast import App, Context, RetryLater, Snooze
from holdfast.postgres.listener import Listener
from holdfast.worker import service_wiring
from holdfast.worker.worker import Worker
from support.pgbouncer import pgbouncer
from support.waiting import until

# A full look comes every 30 s: what is done well before that was not found by it.
SOON = timedelta(seconds=8)

SINCE_THE_RUN_BEFORE = """
select started_at - lag(finished_at) over (order by run) from holdfast.ledger where job = %s order by run
"""


@pytest.fixture
def no_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_wiring, "new_listener", lambda _: Listener.off("turned off by a test"))


async def leads(books: Books, worker: Worker) -> None:
    await until(lambda: worker.id is not None and books.leader() == worker.id, "it leads")


@pytest.mark.usefixtures("no_listen")
@pytest.mark.requirement("S2.19", "S2.22")
async def test_retries_and_snoozes_of_the_leaders_own_process_do_not_wait_for_a_poll(
    dsn: str, books: Books
) -> None:
    async with App(dsn) as app:

        @app.job
        async def come_again(ctx: Context) -> int:
            if ctx.attempt == 1 and not ctx.state:
                ctx.state["snoozed"] = True
                raise Snooze("200ms")
            if ctx.attempt == 1:
                raise RetryLater("200ms")
            return ctx.attempt

        # A poll that would come too late for anything here, and beats and leases that wake nothing.
        async with working(app, poll=3600, lease=60, beat=20, leader_lease=30) as worker:
            await leads(books, worker)
            handle = await come_again.enqueue()
            assert await handle.result(SOON) == 2
    assert books.outcomes(handle.id) == ["snoozed", "retried", "succeeded"]


@pytest.mark.usefixtures("no_listen")
@pytest.mark.requirement("S2.19")
async def test_what_the_workers_own_process_enqueues_does_not_wait_for_a_poll(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def note() -> None: ...

        async with working(app, poll=3600, lease=60, beat=20, leader_lease=30) as worker:
            await leads(books, worker)
            for _ in range(3):
                await (await note.enqueue()).result(SOON)
                await (await note.using(delay="100ms").enqueue()).result(SOON)
                [handle] = await app.enqueue_many([note.call()])
                await handle.result(SOON)
                await (await asyncio.to_thread(note.enqueue_sync)).result(SOON)
                [handle] = await asyncio.to_thread(app.enqueue_many_sync, [note.call()])
                await handle.result(SOON)


@pytest.mark.usefixtures("no_listen")
@pytest.mark.requirement("S2.19", "S2.22")
async def test_a_delay_of_another_process_is_promoted_within_a_poll(dsn: str, books: Books) -> None:
    async with App(dsn) as app, App(dsn) as caller:

        @app.job(name="later")
        async def later() -> None: ...

        @caller.job(name="later")
        async def call_later() -> None: ...

        async with working(app, poll=0.5, lease=60, beat=20, leader_lease=30) as worker:
            await leads(books, worker)
            for _ in range(3):  # the first may be found by the looks with which a leader begins
                handle = await call_later.using(delay="300ms").enqueue()
                await handle.result(SOON)


@pytest.mark.usefixtures("no_listen")
@pytest.mark.requirement("S2.19", "S1.24")
async def test_a_request_to_cancel_arrives_within_a_poll(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def wait() -> None:
            await asyncio.sleep(60)

        async with working(app, poll=0.5, lease=60, beat=20) as worker:
            await leads(books, worker)
            handle = await wait.enqueue()
            await until(lambda: books.state(handle.id) == "running", "it runs")
            assert await handle.cancel() == "requested"
            await until(lambda: books.state(handle.id) == "cancelled", "it is cancelled", within=10)


@pytest.mark.usefixtures("no_listen")
@pytest.mark.requirement("S2.19", "S3.3")
async def test_a_leader_that_leaves_is_followed_within_a_poll(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def nothing() -> None: ...

        slow = {"poll": 0.5, "lease": 60, "leader_lease": 60}
        async with working(app, **slow) as second:
            await leads(books, second)
            async with working(app, **slow) as first:
                await until(lambda: first.id is not None, "it registers")
                second.stopping.ask()
                await until(lambda: books.leader() == first.id, "the other one leads", within=10)


@pytest.mark.machine
@pytest.mark.requirement("S2.19", "S2.22")
async def test_behind_a_transaction_pooler_a_retry_of_a_worker_that_does_not_lead_is_promoted_within_a_poll(
    dsn: str, shop: Any, books: Books, workers: Workers
) -> None:
    with pgbouncer(dsn, "transaction") as front:
        calm: dict[str, Any] = {"dsn": front, "poll": 0.5, "lease": 60, "beat": 20, "leader_lease": 30}
        leader = await workers.start(slots=1, **calm)
        await until(lambda: books.leader() == leader.id, "it leads")
        await shop.wait_then_return.enqueue("go")
        await until(lambda: books.executions(pid=leader.pid) == 1, "its only slot is taken")
        follower = await workers.start(is_leading_allowed=False, **calm)
        handles = [await shop.retry_after.enqueue("500ms") for _ in range(20)]
        await until(
            lambda: books.executions(pid=follower.pid) == 40, "the other one has run all of them twice"
        )
        await until(
            lambda: all(len(books.run(SINCE_THE_RUN_BEFORE, handle.id)) == 2 for handle in handles),
            "and both runs of each are settled",
        )
        for handle in handles:
            [(waited,)] = books.run(SINCE_THE_RUN_BEFORE, handle.id)[1:]
            assert waited < SOON
        books.open_gate("go")
        await books.all_finished(21)
        await leader.stop()
        await follower.stop()
