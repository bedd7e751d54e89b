"""What was stored with a job counts, not what the code says today; and a row that the code cannot read holds
up no other row of its claim.
"""

import asyncio
from functools import partial

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import noting, working
from holdfast import App, Context, Retry
from holdfast.job import Job
from support.waiting import until


def with_attempts(app: App, number: int) -> Job[[], None]:
    @app.job(name="stumble", retry=Retry(max_attempts=number, backoff="0s"))
    async def stumble(ctx: Context) -> None:
        raise RuntimeError(f"attempt {ctx.attempt}")

    return stumble


@pytest.mark.requirement("S0.12")
@pytest.mark.parametrize(("stored", "in_code"), [(2, 9), (4, 1)])
async def test_the_limit_of_attempts_is_the_one_that_was_stored_with_the_job(
    dsn: str, books: Books, stored: int, in_code: int
) -> None:
    async with App(dsn) as producer, App(dsn) as consumer:
        handle = await with_attempts(producer, stored).enqueue()
        with_attempts(consumer, in_code)
        async with working(consumer):
            await books.all_finished(1)
    assert books.outcomes(handle.id) == ["retried"] * (stored - 1) + ["failed"]


def hanging(app: App, number: int) -> Job[[], None]:
    @app.job(name="hang", retry=Retry(max_attempts=number, backoff="0s"))
    async def hang() -> None:
        await asyncio.Event().wait()

    return hang


@pytest.mark.requirement("S0.12", "S3.26")
async def test_a_run_that_is_lost_is_tried_as_often_as_its_row_says(dsn: str, books: Books) -> None:
    async with App(dsn) as producer, App(dsn) as consumer, App(dsn) as leader:
        handle = await hanging(producer, 2).enqueue()
        hanging(consumer, 9)
        noting(leader)
        async with working(consumer, is_leading_allowed=False, lease=60):
            for outcomes, then in ((["retried"], "running"), (["retried", "failed"], "failed")):
                await until(lambda: books.state(handle.id) == "running", "it runs")
                books.run("update holdfast.lease set timeout_at = now() - interval '1 hour'")
                async with working(leader):
                    await until(partial(has_come_to, books, handle.id, outcomes, then), "it is taken away")


def has_come_to(books: Books, job: int, outcomes: list[str], state: str) -> bool:
    return books.outcomes(job) == outcomes and books.state(job) == state


@pytest.mark.requirement("S4.14", "S1.15")
@pytest.mark.parametrize("bad_one", [0, 3, 6])
async def test_a_row_that_cannot_be_read_holds_up_no_other_row_of_its_claim(
    dsn: str, books: Books, bad_one: int
) -> None:
    async with App(dsn) as app:

        @app.job
        async def count(number: int) -> int:
            return number

        handles = await app.enqueue_many([count.call(number) for number in range(7)])
        bad = handles[bad_one].id
        books.run('update holdfast.job set args = \'{"number": "?"}\' where id = %s', bad)
        async with working(app, slots=20):
            await books.all_finished(6)
            await until(lambda: books.outcomes(bad), "the bad one was met")
    # Begun with their claim: not given back first, and not begun only after the lease keeper missed them.
    good = [handle.id for handle in handles if handle.id != bad]
    assert {tuple(books.outcomes(job)) for job in good} == {("succeeded",)}
    assert set(books.outcomes(bad)) == {"snoozed"}


@pytest.mark.requirement("S0.10", "S0.11")
async def test_a_running_job_shows_nothing_of_its_earlier_runs(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        second, may_end = asyncio.Event(), asyncio.Event()

        @app.job(retry=Retry(max_attempts=2, backoff="0s"))
        async def stumble(ctx: Context) -> dict[str, int]:
            if ctx.attempt == 1:
                raise RuntimeError("of the first run")
            second.set()
            await may_end.wait()
            return {"attempt": ctx.attempt}

        async with working(app):
            handle = await stumble.enqueue()
            await second.wait()
            shown = books.run(
                "select state, attempt, error, result, flag, finished_at, worker is not null"
                " from holdfast.jobs where id = %s",
                handle.id,
            )
            assert shown == [("running", 2, None, None, None, None, True)]
            status = await handle.status()
            assert (status.state, status.attempt, status.error, status.finished_at) == (
                "running",
                2,
                None,
                None,
            )
            may_end.set()
            assert await handle.result("20s") == {"attempt": 2}
