"""The database's clock is the only one that planning knows: set to another time, it decides what is due, and
without its answer nothing is planned.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import App
from holdfast.telemetry.events import ChoreFailed
from schedules.driven_planner import Books, Heard, planner_on
from support.clocks import DatabaseClock
from support.waiting import until


@pytest.fixture
def report(app: App) -> Any:
    @app.job
    async def report() -> None: ...

    return report


@pytest.mark.requirement("S0.1", "S3.20")
async def test_what_is_due_is_decided_by_the_clock_of_the_database(
    app: App, report: Any, dsn: str, books: Books
) -> None:
    far = datetime.now(UTC) + timedelta(days=100)
    await app.schedules.put("once", report.call(), at=far)
    with DatabaseClock.of(dsn) as clock:
        async with planner_on(dsn) as planner:
            assert (await planner.once()).count == 0
            clock.shift("101 days")
            assert (await planner.once()).count == 1
    [(_, plan_time, decision, _, _)] = books.plans("once")
    assert (plan_time, decision) == (far, "caught_up")
    assert books.value("select decided_at > now() + interval '100 days' from holdfast.plan")


@pytest.mark.requirement("S0.1", "S3.20")
async def test_a_clock_that_is_behind_fires_nothing_early(
    app: App, report: Any, dsn: str, books: Books
) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    with DatabaseClock.of(dsn) as clock:
        clock.shift("-1 day")
        await app.schedules.put("once", report.call(), at=soon)
        async with planner_on(dsn) as planner:
            did = await planner.once()
    assert did.count == 0
    assert did.again_in is not None
    assert timedelta(hours=23) < timedelta(seconds=did.again_in) < timedelta(hours=25)
    assert books.jobs() == 0


@pytest.mark.requirement("S0.2")
async def test_while_the_database_tells_no_time_a_worker_plans_nothing(dsn: str, books: Books) -> None:
    heard = Heard()
    with DatabaseClock.of(dsn) as clock:
        async with App(dsn, readers=[heard.events.append]) as app:

            @app.schedule(every="100ms", missed="every")
            @app.job
            async def tick() -> None: ...

            def failures() -> list[Any]:
                return [event for event in heard.of(ChoreFailed) if event.chore == "plan"]

            async with app.worker():
                await until(lambda: len(books.plans("tick")) >= 2)
                clock.stop()
                await until(failures)
                before = len(books.plans("tick"))
                again = len(failures())
                await until(lambda: len(failures()) > again)
                assert len(books.plans("tick")) == before
                clock.shift("0")
                await until(lambda: len(books.plans("tick")) > before)
    assert "the clock has stopped" in str(failures()[0].error)
