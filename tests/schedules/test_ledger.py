"""The ledger of plans: what became of each plan's job, also after the job was pruned."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Retry
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.schedules.plan_pruner import PlanPruner
from holdfast.schedules.planner import Planner
from holdfast.storage import chores
from schedules.driven_planner import SCHEMA, Books
from support.waiting import until

# So long that nothing comes due while a test runs.
SPAN = timedelta(days=1000)


async def fire(app: App, planner: Planner, books: Books, job: Any, **options: Any) -> None:
    await app.schedules.put("report", job.call(), every=SPAN, **options)
    books.look_back("report", SPAN)
    assert (await planner.once()).count == 1


def prune_jobs(dsn: str, books: Books) -> None:
    books.rows("update holdfast.ledger set keep_until = now() where is_final")
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_on_blocking(connection, chores.prune(SCHEMA))


@pytest.mark.parametrize("keep", [None, "0s"])
async def test_a_plan_shows_its_jobs_end_also_after_the_job_was_pruned(
    app: App, planner: Planner, books: Books, dsn: str, keep: str | None
) -> None:
    @app.job(keep=keep)
    async def report() -> dict[str, Any]:
        return {"rows_affected": 12, "file": "report.pdf"}

    await fire(app, planner, books, report)
    [waiting] = await app.schedules.plans("report")
    assert (waiting.state, waiting.attempts, waiting.max_attempts) == ("ready", 0, 20)
    async with app.worker():
        await until(lambda: books.rows("select 1 from holdfast.plans where state = 'succeeded'"))
    [ended] = await app.schedules.plans("report")
    prune_jobs(dsn, books)
    assert books.jobs() == 0
    [kept] = await app.schedules.plans("report")
    assert (kept.state, kept.attempts, kept.rows_affected) == ("succeeded", 1, 12)
    assert kept.result == {"rows_affected": 12, "file": "report.pdf"}
    assert kept.duration == ended.duration is not None
    assert (kept.decision, kept.time, kept.lag) == (ended.decision, ended.time, ended.lag)


async def test_a_failed_plan_shows_its_error_code_also_after_it_was_purged(
    app: App, planner: Planner, books: Books, dsn: str
) -> None:
    @app.job(retry=Retry(max_attempts=1))
    async def report() -> None:
        raise RuntimeError("no paper")

    await fire(app, planner, books, report)
    async with app.worker():
        await until(lambda: books.rows("select 1 from holdfast.plans where state = 'failed'"))
    [plan] = await app.schedules.plans("report")
    assert (plan.error_code, plan.rows_affected, plan.result) == ("handler_error", None, None)
    assert plan.job is not None
    assert await app.jobs.delete(plan.job) == {plan.job: "deleted"}
    [kept] = await app.schedules.plans("report")
    assert (kept.state, kept.error_code, kept.attempts) == ("failed", "handler_error", 1)


@pytest.mark.parametrize("result", ["[1]", '"text"', '{"rows_affected": "many"}', '{"rows_affected": 1e40}'])
async def test_whatever_a_job_returns_the_view_can_be_read(
    app: App, planner: Planner, books: Books, result: str
) -> None:
    @app.job
    async def report() -> None: ...

    await fire(app, planner, books, report)
    books.rows("update holdfast.plan set outcome = 'succeeded', result = %s", result)
    [plan] = await app.schedules.plans("report")
    assert plan.rows_affected in (None, 10**40)


@pytest.mark.requirement("S0.28", "S0.29")
async def test_the_latest_plan_tells_whether_its_job_may_be_tried_again(
    app: App, planner: Planner, books: Books
) -> None:
    failed = asyncio.Event()

    @app.job(retry=Retry(max_attempts=3, backoff=[timedelta(hours=1)]))
    async def report(ctx: Context) -> None:
        failed.set()
        raise RuntimeError

    await fire(app, planner, books, report, scope="tenant:1")
    assert await app.schedules.latest_plan("report", scope="nobody") is None
    fresh = await app.schedules.latest_plan("report", scope="tenant:1")
    assert fresh is not None
    now = datetime.now(UTC)
    assert not fresh.is_retry_due(now), "it has not failed"
    async with app.worker():
        await until(lambda: books.rows("select 1 from holdfast.ledger where outcome = 'retried'"))
    plan = await app.schedules.latest_plan("report", scope="tenant:1")
    assert plan is not None
    assert (plan.state, plan.attempts, plan.max_attempts) == ("scheduled", 1, 3)
    assert plan.time.tzinfo is UTC
    assert plan.next_retry_at is not None
    assert not plan.is_retry_due(plan.next_retry_at - timedelta(microseconds=1))
    assert plan.is_retry_due(plan.next_retry_at)
    books.rows("update holdfast.job set max_attempts = 1")
    spent = await app.schedules.latest_plan("report")
    assert spent is not None
    assert not spent.is_retry_due(plan.next_retry_at)
    assert plan.job is not None
    await app.jobs.cancel([plan.job])
    over = await app.schedules.latest_plan("report")
    assert over is not None
    assert (over.state, over.is_retry_due(plan.next_retry_at)) == ("cancelled", False)


async def test_plans_are_pruned_after_their_history_and_scopes_remember_how_far_they_came(
    app: App, planner: Planner, books: Books
) -> None:
    @app.job
    async def report() -> None: ...

    await app.schedules.put("report", report.call(), every=SPAN, scopes=["a", "b"], history="1h")
    books.look_back("report", SPAN)
    await planner.once()
    pruner = PlanPruner(planner._database, SCHEMA)
    assert (await pruner.once()).count == 0
    [(first, _), *_] = books.rows("select plan_time, scope from holdfast.plan")
    books.rows("update holdfast.plan set keep_until = now() where scope = 'a'")
    assert (await pruner.once()).count == 1
    assert [row[0] for row in books.plans("report")] == ["b"]
    remembered = books.rows(
        "select scope, last_plan_at, pruned_until from holdfast.schedule_scope order by 1"
    )
    assert remembered == [("a", first, first), ("b", first, None)]
    await app.schedules.delete("report")
    books.rows("update holdfast.plan set keep_until = now()")
    assert (await pruner.once()).count == 1
