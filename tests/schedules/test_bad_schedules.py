"""Rows that were written by hand and mean nothing: reported, skipped, and no harm to the others."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast import App
from holdfast.schedules.planner import Planner
from holdfast.telemetry.events import ScheduleFailed
from schedules.driven_planner import Books, Heard

# So long that nothing comes due while a test runs.
SPAN = timedelta(days=1000)


@pytest.fixture
async def report(app: App, books: Books) -> Any:
    """Two schedules, due: a good one and one for the test to spoil."""

    @app.job
    async def report() -> None: ...

    for name in ("bad", "good"):
        await app.schedules.put(name, report.call(), every=SPAN)
        books.look_back(name, SPAN)
    return report


SPOILT = {
    "expression": """update holdfast.schedule set timing = '{"cron": "0 0 31 2 *", "zone": "UTC"}'""",
    "zone": """update holdfast.schedule set timing = '{"cron": "@daily", "zone": "Mars/Olympus"}'""",
    "interval": """update holdfast.schedule set timing = '{"every": -5}'""",
    "timing": """update holdfast.schedule set timing = '[1, 2]'""",
    "rules": """update holdfast.schedule set rules = '{"missed": "sometimes"}'""",
    "shape of rules": """update holdfast.schedule set rules = '7'""",
}


@pytest.mark.requirement("S3.19")
@pytest.mark.parametrize("what", SPOILT)
async def test_a_bad_row_is_reported_once_and_skipped_while_others_go_on(  # noqa: PLR0917  # fixtures
    app: App, report: Any, planner: Planner, books: Books, heard: Heard, what: str
) -> None:
    books.rows(SPOILT[what] + " where name = 'bad'")
    did = await planner.once()
    assert (did.count, books.plans("bad"), len(books.plans("good"))) == (1, [], 1)
    assert did.again_in is not None
    assert did.again_in > 0, "looked at again later, not in a circle"
    bad = await app.schedules.get("bad")
    assert bad.error
    assert bad.failing == 1
    assert not (await app.schedules.get("good")).error
    books.rows("update holdfast.schedule_scope set next_at = now() where schedule = 'bad'")
    await planner.once()
    [told] = heard.of(ScheduleFailed)
    assert (told.schedule, told.error) == ("bad", bad.error)
    await app.schedules.put("bad", report.call(), every=SPAN)
    books.look_back("bad", SPAN)
    assert (await planner.once()).count == 1
    assert (await app.schedules.get("bad")).error is None


@pytest.mark.requirement("S3.19")
async def test_one_scopes_bad_zone_holds_up_no_other_scope(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("daily", report.call(), cron="@daily", scopes=[f"tenant:{n}" for n in range(80)])
    books.look_back("daily", timedelta(days=1))
    books.rows("update holdfast.schedule_scope set zone = 'Mars' where scope = 'tenant:7'")
    await planner.once()
    assert len({row[0] for row in books.plans("daily")}) == 79
    assert books.rows("select scope from holdfast.schedule_scope where error is not null") == [("tenant:7",)]


@pytest.mark.parametrize("scopes", [["a"], [f"tenant:{n}" for n in range(80)]], ids=["one", "many"])
async def test_a_fire_that_postgres_refuses_holds_up_no_other(
    app: App, report: Any, planner: Planner, books: Books, scopes: list[str]
) -> None:
    await app.schedules.put("refused", report.call(), every=SPAN, scopes=scopes)
    books.look_back("refused", SPAN)
    books.rows("alter table holdfast.plan add constraint no check (scope not in ('a', 'tenant:7'))")
    await planner.once()
    refused = books.rows("select scope from holdfast.schedule_scope where error is not null")
    assert refused == [(scopes[0] if len(scopes) == 1 else "tenant:7",)]
    assert len(books.plans("refused")) == len(scopes) - 1
    assert len(books.plans("good")) == len(books.plans("bad")) == 1


async def test_scopes_of_a_schedule_that_is_gone_are_put_off(
    report: Any, planner: Planner, books: Books
) -> None:
    books.rows("delete from holdfast.schedule where name = 'bad'")
    assert (await planner.once()).count == 1
    assert books.value("select error from holdfast.schedule_scope where schedule = 'bad'")
