"""From a schedule to its jobs: one fire for each plan, by the database's clock, told in a ledger."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from holdfast import App, Context, Plan
from holdfast.schedules.planner import Planner
from holdfast.telemetry.events import PlansMissed
from schedules.driven_planner import Books, Heard
from support.waiting import until

# So long that nothing comes due while a test runs.
SPAN = timedelta(days=1000)


@pytest.fixture
def report(app: App) -> Any:
    @app.job
    async def report(ctx: Context) -> None: ...

    return report


@pytest.mark.requirement("S3.14", "S3.15", "S3.16", "S2.41")
async def test_the_latest_plan_since_it_was_created_fires_and_earlier_ones_are_told_in_one_row(
    app: App, report: Any, planner: Planner, books: Books, heard: Heard
) -> None:
    await app.schedules.put("hourly", report.call(), every=SPAN)
    books.look_back("hourly", 10 * SPAN)
    assert (await planner.once()).count == 1
    [missed, fired] = books.plans("hourly")
    assert fired[2] in ("fired", "caught_up")
    assert missed[2:] == ("missed", "coalesced", 9)
    assert fired[1] - missed[1] == SPAN
    assert (await planner.once()).count == 0
    assert books.jobs() == 1
    assert [event.plans for event in heard.of(PlansMissed)] == [9]
    schedule = await app.schedules.get("hourly")
    assert schedule.last_plan_at == fired[1]
    assert schedule.next_at == fired[1] + SPAN


async def test_nothing_that_was_due_before_a_schedule_was_created_is_fired(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("yearly", report.call(), cron="0 0 1 1 *")
    assert (await planner.once()).count == 0
    assert books.plans("yearly") == []


@pytest.mark.requirement("S0.1")
async def test_the_next_look_is_exactly_at_the_next_plan(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("yearly", report.call(), cron="0 0 1 1 *")
    # As if the next plan were so far away, whatever time it is.
    books.rows("update holdfast.schedule_scope set next_at = now() + interval '1000 s'")
    did = await planner.once()
    left = float(books.value("select extract(epoch from next_at - now()) from holdfast.schedule_scope"))
    assert did.again_in is not None
    assert left <= did.again_in <= 1000


async def test_a_job_runs_after_the_delay_but_its_plan_time_stays(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("slowly", report.call(), every="2h", delay="1h 59m", jitter="30m")
    books.look_back("slowly", timedelta(hours=2))
    await planner.once()
    [(plan_time, run_at, job_runs_at)] = books.rows(
        "select plan_time, p.run_at, s.run_at from holdfast.plan p left join holdfast.scheduled s using (job)"
    )
    assert timedelta(minutes=119) <= run_at - plan_time < timedelta(minutes=149)
    assert job_runs_at in (run_at, None)
    assert (plan_time.hour % 2, plan_time.minute) == (0, 0)


@pytest.mark.requirement("S3.17")
async def test_a_handler_knows_its_plan_and_other_jobs_have_none(app: App, books: Books) -> None:
    seen: list[Plan | None] = []

    @app.job
    async def report(ctx: Context) -> dict[str, int]:
        seen.append(ctx.plan)
        return {"rows_affected": 7}

    await app.schedules.put("report", report.call(), cron="0 9 9 5 *", tz="Asia/Tokyo", scope="tenant:7")
    books.look_back("report", timedelta(days=366))
    async with app.worker():
        plain = await report.enqueue()
        await plain.result("20s")
        await until(lambda: books.rows("select 1 from holdfast.plans where state = 'succeeded'"))
    [plan] = [plan for plan in seen if plan is not None]
    assert (plan.schedule, plan.scope) == ("report", "tenant:7")
    assert (plan.time.hour, plan.time.tzinfo) == (0, UTC)
    assert plan.is_late
    assert len(seen) == 2
    [record] = [one for one in await app.schedules.plans("report") if one.job]
    assert (record.time, record.state, record.attempts, record.rows_affected) == (
        plan.time,
        "succeeded",
        1,
        7,
    )
    assert record.duration is not None
    assert record.lag > timedelta()


async def test_a_worker_fires_at_the_plan_time(app: App, books: Books) -> None:
    seen: list[Plan] = []

    @app.schedule(every="1s")
    @app.job
    async def tick(ctx: Context) -> None:
        assert ctx.plan is not None
        seen.append(ctx.plan)

    async with app.worker():
        await until(lambda: len(seen) >= 3)
    times = [plan.time for plan in seen[:3]]
    assert [later - earlier for earlier, later in pairwise(times)] == [timedelta(seconds=1)] * 2
    assert not any(plan.is_late for plan in seen)


async def test_every_missed_plan_is_caught_up_oldest_first_in_bounded_passes(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put(
        "minutely", report.call(), every="1m", missed="every", window="24h", max_per_pass=100
    )
    books.look_back("minutely", timedelta(minutes=250))
    looked = await planner.look()
    assert looked.fired == 100
    first = books.plans("minutely")
    while not (await planner.look()).is_last:
        pass
    await planner.once()
    plans = books.plans("minutely")
    assert len(plans) in (250, 251)
    assert plans[:100] == first
    gaps = {later[1] - earlier[1] for earlier, later in pairwise(plans)}
    assert gaps == {timedelta(minutes=1)}
    ids = [job for (job,) in books.rows("select job from holdfast.plan order by plan_time")]
    assert ids == sorted(ids)


@pytest.mark.requirement("S2.40")
async def test_a_plan_is_skipped_while_the_earlier_job_is_active(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("hourly", report.call(), every=SPAN, overlap="skip")
    books.look_back("hourly", SPAN)
    await planner.once()
    books.age("hourly", SPAN)
    await planner.once()
    assert [plan[2:4] for plan in books.plans("hourly")][1:] == [("skipped", "overlap")]
    assert books.jobs() == 1


async def test_a_queued_plan_waits_for_the_earlier_job(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    await app.schedules.put("hourly", report.call(), every=SPAN, overlap="queue")
    books.look_back("hourly", SPAN)
    await planner.once()
    [job] = [job for (job,) in books.rows("select job from holdfast.plan")]
    books.age("hourly", SPAN)
    did = await planner.once()
    assert (did.count, books.jobs()) == (0, 1)
    assert did.again_in is not None
    assert did.again_in > 0
    assert await app.jobs.cancel([job]) == {job: "cancelled"}
    books.rows("update holdfast.schedule_scope set next_at = now()")
    assert (await planner.once()).count == 1


async def test_a_one_off_fires_once_and_never_again(
    app: App, report: Any, planner: Planner, books: Books
) -> None:
    moment = datetime.now(UTC) + timedelta(milliseconds=300)
    await app.schedules.put("once", report.call(), at=moment)
    did = await planner.once()
    assert did.again_in is not None

    async def fired() -> int:
        return (await planner.once()).count

    assert await until(fired, "the schedule fires") == 1
    assert (await planner.once()).again_in is None
    assert [plan[1] for plan in books.plans("once")] == [moment]
