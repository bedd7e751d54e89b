"""Wake-ups as a running worker hears them: its own looks are so far apart that only a notification can be why
something happened.
"""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import noting, working
from holdfast import App, Flow
from holdfast.telemetry.events import ChoreDid, Event
from support.waiting import until

# No worker looks by itself for ten minutes.
SELDOM = {"poll": 600, "lease": 1200, "beat": 600, "leader_lease": 1200}

PARKED = "update holdfast.ready set segment = 9"
FIRED = "select 1 from holdfast.plan where schedule = %s"
LEASED = """
with taken as (delete from holdfast.scheduled returning job)
insert into holdfast.lease (worker, job, run, started_at, timeout_at, attempt, queue, kind, is_plain)
select %s, job, nextval('holdfast.run'), now(), now() + interval '1 h', 1, 'default', 'note', true from taken
"""


@pytest.mark.requirement("S2.16")
async def test_a_new_job_wakes_a_worker_that_sleeps(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        note = noting(app)
        async with working(app, **SELDOM):
            for _ in range(3):
                await (await note.enqueue()).result("30s")


@pytest.mark.requirement("S2.16")
async def test_a_job_that_another_program_wrote_in_sql_wakes_a_worker_that_sleeps(
    dsn: str, books: Books
) -> None:
    async with App(dsn) as app:
        note = noting(app)
        async with working(app, **SELDOM):
            await (await note.enqueue()).result("30s")
            books.run("select holdfast.enqueue('note')")
            await books.all_finished(2)


@pytest.mark.requirement("S2.21", "S2.22")
async def test_a_job_that_is_due_sooner_wakes_a_leader_that_sleeps(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        note = noting(app)
        async with working(app, **SELDOM):
            await until(books.leader, "it leads")
            await note.using(delay="1h").enqueue()
            # By itself the leader would look again after twenty seconds.
            await (await note.using(delay="100ms").enqueue()).result("12s")


async def test_a_schedule_that_is_new_wakes_the_planner(dsn: str, books: Books) -> None:
    fired = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, ChoreDid) and event.chore == "plan":
            fired.set()

    async with App(dsn, readers=[hear]) as app:
        note = noting(app)
        await app.schedules.put("first", note.call(), at=datetime.now(UTC) + timedelta(milliseconds=200))
        await app.schedules.put("later", note.call(), at=datetime.now(UTC) + timedelta(hours=1))
        async with working(app, **SELDOM), asyncio.timeout(30):
            # Told between its turn and its sleep: before that its first look would find what is new.
            await fired.wait()
            # By itself the planner would look again after half a minute.
            await app.schedules.put("soon", note.call(), at=datetime.now(UTC) + timedelta(milliseconds=200))
            await until(lambda: books.run(FIRED, "soon"), "it fires", within=15)


async def test_an_event_and_a_child_wake_the_flow_that_waits_for_them(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        note = noting(app)

        @app.flow
        async def shipping(flow: Flow) -> str:
            for number in range(3):
                await flow.wait_event(f"packed {number}", type=str, timeout="1h")
                await flow.call(note).named("note", key=number)
            return "shipped"

        async with working(app, **SELDOM):
            await until(books.leader, "it leads")
            handle = await shipping.enqueue()
            for number in range(3):
                await until(lambda: books.state(handle.id) == "waiting", "it waits")
                await app.emit(f"packed {number}", "by Ann")
            # Each of six waits would last for a second, then four, sixteen, twenty: if no flow were woken.
            assert await handle.result("30s") == "shipped"


async def test_a_worker_gets_what_was_parked_for_want_of_it(dsn: str, books: Books) -> None:
    async with App(dsn) as leading, App(dsn) as late:
        noting(leading)

        @late.job
        async def rare() -> str:
            return "done"

        handle = await rare.enqueue()
        async with working(leading, **SELDOM):
            await until(books.leader, "it leads")
            books.run(PARKED)
            async with working(late, **SELDOM):
                assert await handle.result("30s") == "done"


async def test_a_run_that_is_given_back_is_claimed_again_by_the_same_worker_at_once(
    dsn: str, books: Books
) -> None:
    """A lease that this process knows nothing of, as after a claim whose reply was lost."""
    async with App(dsn) as app:
        note = noting(app)
        async with working(app, poll=600, beat=0.2) as worker:
            await (await note.enqueue()).result("30s")
            far = await note.using(delay="1h").enqueue()
            books.run(LEASED, worker.id)
            await far.result("30s")
    assert books.outcomes(far.id) == ["released", "succeeded"]
