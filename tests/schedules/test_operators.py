"""What operators and programs do with schedules: put, pause, resume, skip, run now, backfill, delete."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Scope
from holdfast.errors import InvalidInput, ScheduleConflict, ScheduleNotFound
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.schedules.planner import Planner
from holdfast.storage.schedules_plans import prune
from schedules.driven_planner import SCHEMA, Books

# So long that nothing comes due while a test runs.
SPAN = timedelta(days=1000)
DAY = timedelta(days=1)


@pytest.fixture
def report(app: App) -> Any:
    @app.job(queue="mail", priority=3)
    async def report(number: int = 0) -> None: ...

    return report


async def test_a_schedule_that_has_ended_may_be_put_and_never_fires(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    for _ in range(2):
        await app.schedules.put(
            "campaign", report.call(), every="1s", ends_at=datetime(2020, 1, 1, tzinfo=UTC)
        )
        await planner.once()
    assert books.plans("campaign") == []
    assert (await app.schedules.get("campaign")).next_at is None
    assert await app.schedules.next_times("campaign") == []


async def test_a_stored_schedule_is_told_as_it_was_put(app: App, report: Any) -> None:
    put = await app.schedules.put(
        "digest:7",
        report.call(7),
        cron="0 7 * * *",
        tz="Asia/Tokyo",
        scope="tenant:7",
        missed="every",
        window="24h",
        overlap="skip",
    )
    assert put == await app.schedules.get("digest:7") == (await app.schedules.list())[0]
    assert (put.kind, put.queue, put.args, put.scopes) == ("report", "mail", {"number": 7}, 1)
    assert (put.is_declared, put.is_orphaned, put.is_paused, put.error) == (False, False, False, None)
    assert "Asia/Tokyo" in put.described
    assert put.rules is not None
    assert (put.rules.missed, put.rules.window, put.rules.overlap) == ("every", DAY, "skip")


async def test_what_is_put_in_a_callers_transaction_goes_with_it(app: App, report: Any, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await app.schedules.put("daily", report.call(), every="1d", conn=conn)
        assert (await app.schedules.get("daily", conn=conn)).name == "daily"
        await conn.rollback()
        with pytest.raises(ScheduleNotFound):
            await app.schedules.get("daily")
        await app.schedules.put("daily", report.call(), every="1d", conn=conn)
        [fired] = await app.schedules.run_now("daily", conn=conn)
        await conn.commit()
    assert (await app.schedules.plans("daily"))[0].job == fired.job


def test_every_verb_can_be_called_without_an_event_loop(dsn: str, books: Books) -> None:
    app = App(dsn)

    @app.job
    def report() -> None: ...

    schedules = app.schedules
    with psycopg.connect(dsn) as conn:
        schedules.put_sync("daily", report.call(), every="1d", conn=conn)
        conn.commit()
    assert [one.name for one in schedules.list_sync()] == ["daily"]
    schedules.pause_sync("daily", note="holiday", until="1h")
    assert schedules.get_sync("daily").pause_note == "holiday"
    assert schedules.resume_sync("daily")
    [(_, skipped)] = schedules.skip_next_sync("daily")
    assert schedules.next_times_sync("daily", count=1) == [skipped + DAY]
    now = books.value("select now()").astimezone(UTC)
    [plan] = schedules.preview_sync("daily", now - DAY, now)
    assert plan.fate == "fire"
    [filled] = schedules.backfill_sync("daily", now - DAY, now)
    [ran] = schedules.run_now_sync("daily")
    latest = schedules.latest_plan_sync("daily")
    assert latest is not None
    assert (latest.job, latest.decision) == (ran.job, "run_now")
    assert [plan.job for plan in schedules.plans_sync("daily")] == [ran.job, filled.job]
    schedules.delete_sync("daily")
    assert schedules.list_sync() == []
    app.close_sync()


async def test_while_it_is_paused_plans_are_skipped_and_told(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("slow", report.call(), every=SPAN)
    await app.schedules.pause("slow", note="the printer is broken")
    books.look_back("slow", SPAN)
    paused = await app.schedules.get("slow")
    assert (paused.is_paused, paused.pause_note) == (True, "the printer is broken")
    assert (await planner.once()).count == 0
    assert [row[2:4] for row in books.plans("slow")] == [("skipped", "paused")]
    assert await app.schedules.resume("slow")
    assert not await app.schedules.resume("slow")
    assert not (await app.schedules.get("slow")).is_paused
    books.age("slow", SPAN)
    assert (await planner.once()).count == 1


async def test_a_pause_with_an_end_ends_by_itself(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("slow", report.call(), every=SPAN)
    await app.schedules.pause("slow", until=datetime.now(UTC) + DAY)
    assert (await app.schedules.get("slow")).is_paused
    await app.schedules.pause("slow", until="1h")
    books.rows("update holdfast.schedule set paused_at = now() - interval '2 h', paused_until = now()")
    assert not (await app.schedules.get("slow")).is_paused
    books.look_back("slow", SPAN)
    assert (await planner.once()).count == 1


async def test_putting_it_again_changes_what_it_says_and_nothing_else(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("slow", report.call(1), every=SPAN)
    books.look_back("slow", SPAN)
    assert (await planner.once()).count == 1
    await app.schedules.pause("slow")
    changed = await app.schedules.put("slow", report.call(2), every=SPAN)
    assert changed.is_paused
    assert changed.args == {"number": 2}
    assert changed.last_plan_at == books.plans("slow")[0][1]
    other = await app.schedules.put("slow", report.call(2), every=SPAN / 1000)
    await app.schedules.resume("slow")
    assert (await planner.once()).count == 0, "what the new timing would have planned before it was put"
    assert other.last_plan_at == changed.last_plan_at


async def test_the_next_plans_are_skipped_on_request_and_that_can_be_taken_back(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    scopes = [Scope("tokyo", zone="Asia/Tokyo"), Scope("oslo", zone="Europe/Oslo")]
    await app.schedules.put("daily", report.call(), cron="0 9 * * *", scopes=scopes)
    times = await app.schedules.next_times("daily", count=3, scope="oslo")
    skipped = dict(await app.schedules.skip_next("daily"))
    assert skipped["oslo"] == times[0]
    assert skipped["tokyo"].hour == 0
    assert await app.schedules.next_times("daily", count=2, scope="oslo") == times[1:]
    assert await app.schedules.skip_next("daily", count=0, scope="oslo") == []
    assert await app.schedules.next_times("daily", count=3, scope="oslo") == times
    # As if the day had come.
    books.rows(
        "update holdfast.schedule_scope set skips = array[skips[1] - interval '1 d'],"
        " since_at = skips[1] - interval '25 h', next_at = now() where skips is not null"
    )
    await planner.once()
    assert ("tokyo", "skipped", "asked") in [(row[0], *row[2:4]) for row in books.plans("daily")]
    assert books.value("select count(*) from holdfast.schedule_scope where skips is not null") == 0


async def test_run_now_fires_beside_the_plans_paused_or_not(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("slow", report.call(5), every=SPAN, scopes=["a", Scope("b", {"number": 6})])
    await app.schedules.pause("slow")
    fired = await app.schedules.run_now("slow", reason="asked by Kari")
    assert [plan.scope for plan in fired] == ["a", "b"]
    assert books.rows("select args ->> 'number' from holdfast.job order by id") == [("5",), ("6",)]
    assert {row[2:4] for row in books.plans("slow")} == {("run_now", "asked by Kari")}
    [one] = await app.schedules.run_now("slow", scope="b")
    assert one.scope == "b"
    schedule = await app.schedules.get("slow")
    assert schedule.last_plan_at is None, "no planned fire is affected"
    await app.schedules.resume("slow")
    books.look_back("slow", SPAN)
    assert (await planner.once()).count == 2, "they are still owed"


async def test_a_backfill_fires_what_has_not_fired_and_its_preview_says_so(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("slow", report.call(), every=SPAN)
    books.look_back("slow", 4 * SPAN)
    assert (await planner.once()).count == 1
    now = books.value("select now()").astimezone(UTC)
    [*missed, fired] = await app.schedules.preview("slow", now - 4 * SPAN, now)
    assert ([plan.fate for plan in missed], fired.fate) == (["fire"] * 3, "fired")
    assert books.jobs() == 1, "a preview changes nothing"
    filled = await app.schedules.backfill("slow", now - 4 * SPAN, now, reason="outage")
    assert [plan.plan_time for plan in filled] == [plan.time for plan in missed]
    assert [row[2] for row in books.plans("slow")][:3] == ["backfilled"] * 3
    assert await app.schedules.backfill("slow", now - 4 * SPAN, now) == []
    assert books.jobs() == 4


async def test_a_backfill_never_fires_what_was_pruned(
    app: App, report: Any, planner: Planner, books: Books, dsn: str
) -> None:
    await app.schedules.put("slow", report.call(), every=SPAN, history="1h")
    books.look_back("slow", SPAN)
    assert (await planner.once()).count == 1
    books.rows("update holdfast.plan set keep_until = now()")
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert run_on_blocking(connection, prune(SCHEMA)) == [1]
    now = books.value("select now()").astimezone(UTC)
    assert [plan.fate for plan in await app.schedules.preview("slow", now - SPAN, now)] == ["pruned"]
    assert await app.schedules.backfill("slow", now - SPAN, now) == []
    assert (await planner.once()).count == 0
    assert books.jobs() == 1


async def test_deleting_forgets_the_schedule_and_keeps_what_happened(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("slow", report.call(), every=SPAN)
    books.look_back("slow", SPAN)
    await planner.once()
    await app.schedules.delete("slow")
    assert books.value("select count(*) from holdfast.schedule_scope") == 0
    assert len(await app.schedules.plans("slow")) == 1
    assert books.jobs() == 1
    assert (await planner.once()).again_in is None


WRONG: list[dict[str, Any]] = [
    {"cron": "0 0 30 2 *"},
    {"cron": "61 * * * *"},
    {"cron": "* * * * *", "tz": "Europe/Osl"},
    {"every": "0s"},
    {"every": "1h", "tz": "Europe/Oslo"},
    {"every": "1h", "cron": "@daily"},
    {},
    {"at": datetime(2030, 1, 1)},  # noqa: DTZ001  # that is what is wrong
    {"every": "1h", "window": "1d"},
    {"every": "1h", "jitter": "2h"},
    {"every": "1h", "missed": "sometimes"},
    {"every": "1h", "history": "0s"},
    {"every": "1h", "scope": "a", "scopes": ["b"]},
    {"every": "1h", "scopes": [Scope("a", zone="Mars")]},
    {"every": "1h", "scopes": [Scope("a", {"nummer": 1})]},
    {"every": "1h", "scopes": "select 1"},
    {"every": "1h", "overlaps": "skip"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
async def test_what_makes_no_sense_is_refused_before_anything_is_written(
    app: App, report: Any, books: Books, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await app.schedules.put("daily", report.call(), **wrong)
    assert books.value("select count(*) from holdfast.schedule") == 0


async def test_a_call_that_says_when_to_run_or_is_of_another_app_is_refused(
    app: App, report: Any, dsn: str
) -> None:
    for using in ({"delay": "1h"}, {"unique": "key"}, {"deadline": "1d"}):
        with pytest.raises(InvalidInput, match="schedule says when"):
            await app.schedules.put("daily", report.using(**using).call(), every="1d")
    other = App(dsn)
    with pytest.raises(InvalidInput):
        await other.schedules.put("daily", report.call(), every="1d")


async def test_a_pause_until_a_time_that_has_passed_is_refused_and_changes_nothing(
    app: App, report: Any
) -> None:
    await app.schedules.put("daily", report.call(), every="1d")
    await app.schedules.pause("daily", note="for good")
    before = await app.schedules.get("daily")
    with pytest.raises(InvalidInput, match="which has passed"):
        await app.schedules.pause("daily", until=datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidInput, match="no time zone"):
        await app.schedules.pause("daily", until=datetime(2020, 1, 1))  # noqa: DTZ001  # that is what is wrong
    assert await app.schedules.get("daily") == before


async def test_plans_of_a_deleted_schedule_can_be_paged_to_their_end(app: App, report: Any) -> None:
    await app.schedules.put("daily", report.call(), every="1d")
    await app.schedules.run_now("daily")
    await app.schedules.delete("daily")
    [plan] = await app.schedules.plans("daily")
    assert await app.schedules.latest_plan("daily") == plan
    assert await app.schedules.plans("daily", before=plan.time) == []


async def test_verbs_on_what_is_not_there_say_so(app: App, report: Any) -> None:
    now = datetime.now(UTC)
    for verb in (
        app.schedules.get("nothing"),
        app.schedules.pause("nothing"),
        app.schedules.resume("nothing"),
        app.schedules.delete("nothing"),
        app.schedules.run_now("nothing"),
        app.schedules.skip_next("nothing"),
        app.schedules.next_times("nothing"),
        app.schedules.backfill("nothing", now - DAY, now - DAY),
        app.schedules.plans("nothing"),
        app.schedules.latest_plan("nothing"),
    ):
        with pytest.raises(ScheduleNotFound, match="nothing"):
            await verb
    await app.schedules.put("daily", report.call(), every="1d", scope="a")
    for verb in (
        app.schedules.run_now("dialy"),
        app.schedules.delete("dialy"),
        app.schedules.resume("dialy"),
    ):
        with pytest.raises(
            ScheduleNotFound, match='there is no schedule "dialy"; did you mean "daily"\\? See'
        ):
            await verb
    with pytest.raises(ScheduleNotFound, match='scope "b"'):
        await app.schedules.run_now("daily", scope="b")
    with pytest.raises(InvalidInput, match="at most 10,000"):
        await app.schedules.skip_next("daily", count=10**9)
    assert await app.schedules.latest_plan("daily") is None
    with pytest.raises(InvalidInput, match="not in the past"):
        await app.schedules.backfill("daily", now, now + DAY)
    with pytest.raises(InvalidInput, match="more than 10,000"):
        await app.schedules.backfill("daily", now - 20_000 * DAY, now - DAY)


async def test_a_declared_schedule_cannot_be_put_over(app: App, report: Any, books: Books) -> None:
    await app.schedules.put("daily", report.call(), every="1d")
    books.rows("update holdfast.schedule set declared_at = now()")
    with pytest.raises(ScheduleConflict, match="declared in code"):
        await app.schedules.put("daily", report.call(), every="2d")
