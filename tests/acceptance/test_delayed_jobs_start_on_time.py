"""Delayed jobs start on time, also when the leader sleeps; no retry starts before its backoff."""

from datetime import timedelta
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from acceptance.workers import Workers
from holdfast import App, Context, Retry
from support.waiting import until

# Without an exact timer the leader would look again only after five seconds, then after twenty: what comes
# sooner was waited for, however busy the machine is.
NEXT_LOOK = timedelta(seconds=5)
LATENESS = """
select l.started_at - j.created_at - %s::interval from holdfast.ledger l join holdfast.job j on j.id = l.job
 where j.id = %s
"""


@pytest.mark.requirement("S1.7", "S2.21", "S2.22")
async def test_a_job_starts_close_to_its_time_also_when_the_leader_went_to_sleep_before(
    shop: Any, books: Books, workers: Workers
) -> None:
    worker = await workers.start(lease=30, beat=5, leader_lease=30)
    await until(lambda: books.leader() == worker.id, "it leads")
    far = await shop.pay.using(delay="1h").enqueue(0)  # what it sleeps for
    late: list[timedelta] = []
    for number, delay in enumerate(("300ms", "700ms", "1s", "1300ms"), 1):
        handle = await shop.pay.using(delay=delay).enqueue(number)
        await books.all_finished(number)
        [(lateness,)] = books.run(LATENESS, delay, handle.id)
        late.append(lateness)
    print("late by", *(f"{each / timedelta(milliseconds=1):.0f} ms" for each in late))  # noqa: T201
    assert all(timedelta() <= each for each in late)
    assert min(late) < NEXT_LOOK
    assert books.state(far.id) == "scheduled"
    await worker.stop()


@pytest.mark.requirement("S2.22")
async def test_a_job_of_another_process_is_promoted_in_time(
    shop: Any, books: Books, workers: Workers
) -> None:
    """In the caller's own transaction: Postgres sends the notification at its commit."""
    worker = await workers.start(lease=30, beat=5, leader_lease=30)
    await until(lambda: books.leader() == worker.id, "it leads")
    import psycopg

    async with await psycopg.AsyncConnection.connect(shop.app._connections.dsn().conninfo("test")) as conn:
        handle = await shop.pay.using(conn=conn, delay="500ms").enqueue(1)
    await books.all_finished(1)
    [(lateness,)] = books.run(LATENESS, "500ms", handle.id)
    assert timedelta() <= lateness < NEXT_LOOK
    await worker.stop()


@pytest.mark.requirement("S1.19", "S1.25", "S2.20", "S2.29", "S4.18")
async def test_a_retry_waits_for_its_backoff(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job(retry=Retry(max_attempts=3, backoff=["300ms", "600ms"]))
        async def stumble(ctx: Context) -> int:
            if ctx.attempt < 3:
                raise RuntimeError("again")
            return ctx.attempt

        async with working(app):
            handle = await stumble.enqueue()
            assert await handle.result("20s") == 3
    rows = books.run(
        "select started_at - lag(finished_at) over (order by run) from holdfast.ledger where job = %s"
        " order by run",
        handle.id,
    )
    first, second = (row[0] for row in rows[1:])
    assert timedelta(milliseconds=300) <= first < NEXT_LOOK
    assert timedelta(milliseconds=600) <= second < NEXT_LOOK


@pytest.mark.requirement("S1.17", "S1.18", "S1.30", "S2.31", "S4.12", "S4.13")
async def test_attempts_are_counted_and_said_and_success_at_the_last_one_is_success(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "holdfast.worker")
    async with App(dsn) as app:

        @app.job(retry=Retry(max_attempts=3, backoff="10ms"))
        async def last(ctx: Context) -> int:
            if ctx.attempt < 3:
                raise RuntimeError("not yet")
            return ctx.attempt

        @app.job(retry=Retry(max_attempts=2, backoff="20ms"))
        async def never() -> None:
            raise RuntimeError("not ever")

        async with working(app):
            good, bad = await last.enqueue(), await never.enqueue()
            await books.all_finished(2)
    assert books.outcomes(good.id) == ["retried", "retried", "succeeded"]
    assert books.outcomes(bad.id) == ["retried", "failed"]
    lines = [line for line in caplog.messages if f"job={bad.id} " in line]
    assert [line.split("attempt=")[1].split()[0] for line in lines] == ["1/2", "2/2"]
    assert [line.split(":")[0] for line in lines] == ["attempt retried", "attempt failed"]
    assert "delay=20ms" in lines[0]
