"""Leadership of running workers: visible, given up in time, and taken over at once."""

import asyncio
from time import monotonic

import pytest

from acceptance.books import Books
from acceptance.held_statements import held_up
from acceptance.in_process_workers import noting, working
from holdfast import App
from holdfast.telemetry.events import Event, LeadershipChanged
from support.waiting import until

STOLEN = "update holdfast.leader set worker = -1, term = term + 1, expires_at = now() + interval '1 s'"

LEFT = "select extract(epoch from expires_at - clock_timestamp()) from holdfast.leader"
UNLOCKED = "select 1 from holdfast.leader for update skip locked"
IS_DUE = "select clock_timestamp() > run_at from holdfast.scheduled"


class Told:
    """What one App's workers say of their leadership, and when."""

    def __init__(self) -> None:
        self.changes: list[bool] = []
        self.terms: list[int] = []
        self.times: list[float] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, LeadershipChanged):
            self.changes.append(event.is_leader)
            self.times.append(monotonic())
            if event.term is not None:
                self.terms.append(event.term)


@pytest.mark.requirement("S3.3")
async def test_a_worker_says_when_it_leads_when_it_does_no_longer_and_when_it_does_again(
    dsn: str, books: Books
) -> None:
    told = Told()
    async with App(dsn, readers=[told]) as app:
        noting(app)
        assert told.changes == []
        async with working(app, leader_lease=1.0):
            await until(lambda: told.changes == [True], "it leads")
            books.run(STOLEN)
            await until(lambda: told.changes == [True, False], "it has lost its place")
            await until(lambda: told.changes == [True, False, True], "it leads again")
        assert told.changes == [True, False, True, False]
    first, second = told.terms
    assert second > first + 1


@pytest.mark.requirement("S1.10", "S3.4")
@pytest.mark.timeout(180)
async def test_a_leader_counts_its_lease_from_before_it_asked(dsn: str, books: Books) -> None:
    """The worker hears three seconds late that it leads, and then hears nothing more."""
    told = Told()
    books.run("insert into holdfast.leader (worker, term, expires_at) values (-1, 1, now())")
    async with App(dsn, readers=[told]) as app:
        noting(app)
        holding = held_up(dsn, books, "holdfast.leader", seconds=3.0)
        entering = asyncio.create_task(holding.__aenter__())
        await until(lambda: not books.run(UNLOCKED), "the row is locked")
        async with working(app, leader_lease=6.0, lease=60, beat=20):
            await entering
            ends = monotonic() + float(books.value(LEFT))
            await until(lambda: told.changes == [True, False], "it gives up", within=20)
            assert told.times[-1] < ends
            await holding.__aexit__(None, None, None)


@pytest.mark.requirement("S3.4")
@pytest.mark.timeout(180)
async def test_a_leader_that_cannot_renew_stops_its_chores_before_its_lease_ends(
    dsn: str, books: Books
) -> None:
    """The renewal waits for a lock."""
    told = Told()
    async with App(dsn, readers=[told]) as app:
        note = noting(app)
        async with working(app, leader_lease=6.0, lease=60, beat=20, poll=60):
            await until(lambda: told.changes == [True], "it leads")
            async with held_up(dsn, books, "holdfast.leader", seconds=3.0):
                ends = monotonic() + float(
                    books.value(
                        "select extract(epoch from expires_at - clock_timestamp()) from holdfast.leader"
                    )
                )
                await until(lambda: told.changes == [True, False], "it gives up", within=20)
                assert told.times[-1] < ends
                # No leader promotes what is due meanwhile: its chores have really stopped.
                due = await note.using(delay="1ms").enqueue()
                await until(
                    lambda: books.value("select clock_timestamp() > run_at from holdfast.scheduled"),
                    "it is due",
                )
                assert books.state(due.id) == "scheduled"
            await until(lambda: told.changes == [True, False, True], "it leads again")
            await books.all_finished(1)


@pytest.mark.requirement("S3.5", "S3.2")
async def test_a_worker_that_waits_to_lead_hears_that_the_place_is_vacant(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        noting(app)
        async with working(app) as first:
            await until(lambda: books.leader() == first.id, "the first leads")
            second_enters = asyncio.Event()

            async def beside() -> None:
                # It tries again by itself only after five minutes.
                async with working(app, leader_lease=600) as second:
                    second_enters.set()
                    await until(lambda: books.leader() == second.id, "the second follows")

            task = asyncio.create_task(beside())
            await second_enters.wait()
            assert books.leader() == first.id
        await task


async def test_a_worker_that_may_not_lead_does_not(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        note = noting(app)
        async with working(app, is_leading_allowed=False):
            await (await note.enqueue()).result("20s")
            assert books.value("select count(*) from holdfast.leader") == 0
