"""A worker's defaults and options, read from the rows that it writes."""

from datetime import timedelta

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import NO_MORE, noting
from holdfast import App, Beats, Cancel, Context, Flow, Retention, WorkerOptions
from holdfast.domain.duration import duration
from holdfast.leader_chores import LEADER_CHORES
from holdfast.schedules.declarer import TEND
from support.waiting import until

KEPT = "select outcome::text, keep_until - finished_at from holdfast.ledger where is_final"
HOUR = timedelta(hours=1)


async def of_every_ending(app: App, books: Books, options: WorkerOptions) -> dict[str, set[timedelta]]:
    """How long a worker with these options keeps jobs, by how they ended."""

    @app.job
    async def succeed() -> None: ...

    @app.job
    async def commit(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    @app.job(retry=NO_MORE)
    async def fail() -> None:
        raise RuntimeError("for good")

    @app.job
    async def give_up() -> None:
        raise Cancel("not needed")

    await succeed.using(queue="unserved", deadline="1ms").enqueue()
    async with app.worker(options=options):
        for job in (succeed, commit, fail, give_up):
            await job.enqueue()
        await books.all_finished(5)
    kept: dict[str, set[timedelta]] = {}
    for outcome, length in books.run(KEPT):
        kept.setdefault(outcome, set()).add(length)
    return kept


@pytest.mark.requirement("S3.7", "S4.22")
async def test_finished_jobs_are_kept_for_a_day_three_days_or_thirty(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        assert await of_every_ending(app, books, WorkerOptions()) == {
            "succeeded": {24 * HOUR},
            "failed": {30 * 24 * HOUR},
            "cancelled": {72 * HOUR},
            "expired": {72 * HOUR},
        }


@pytest.mark.requirement("S4.22")
async def test_finished_jobs_are_kept_for_as_long_as_the_worker_was_told(dsn: str, books: Books) -> None:
    ours = Retention(succeeded=HOUR, dead=2 * HOUR, other=3 * HOUR)
    async with App(dsn) as app:
        assert await of_every_ending(app, books, WorkerOptions(retention=ours)) == {
            "succeeded": {HOUR},
            "failed": {2 * HOUR},
            "cancelled": {3 * HOUR},
            "expired": {3 * HOUR},
        }


async def lease_unheard_of(app: App, books: Books) -> None:
    """A job that is to be cancelled, claimed for the one worker by a claim whose reply was lost."""

    @app.job
    async def work() -> None: ...

    job = await work.using(delay="1h").enqueue()
    books.run("delete from holdfast.scheduled")
    books.run(
        "insert into holdfast.lease (worker, job, run, started_at, timeout_at, attempt, cancel_requested_at)"
        f" select id, {job.id}, nextval('holdfast.run'), now(), now() + interval '1 hour', 1, now()"
        "   from holdfast.worker"
    )


@pytest.mark.requirement("S4.22")
@pytest.mark.parametrize("beat", ["100ms", "10s"], ids=["by the lease keeper", "when the worker stops"])
async def test_a_lost_claim_that_ends_is_kept_for_as_long_as_the_worker_was_told(
    dsn: str, books: Books, beat: str
) -> None:
    beats = Beats(interval=duration(beat), lease=timedelta(seconds=30))
    options = WorkerOptions(retention=Retention(other=3 * HOUR), beats=beats)
    async with App(dsn) as app:

        @app.job
        async def other() -> None: ...

        async with app.worker(options=options):
            await lease_unheard_of(app, books)
            if beat == "100ms":
                await books.all_finished(1)
        assert books.run(KEPT) == [("cancelled", 3 * HOUR)]


@pytest.mark.requirement("S4.22")
@pytest.mark.parametrize("is_told", [True, False], ids=["as the app was told", "as its worker was told"])
async def test_cancelled_jobs_are_kept_for_as_long_as_the_app_or_its_worker_was_told(
    dsn: str, books: Books, is_told: bool
) -> None:
    ours = Retention(other=3 * HOUR)
    async with App(dsn, retention=ours if is_told else None) as app:

        @app.job
        async def work() -> None: ...

        @app.flow
        async def order(flow: Flow) -> None: ...

        if not is_told:
            async with app.worker(options=WorkerOptions(retention=ours)):
                pass
        await app.jobs.cancel([(await work.enqueue()).id])
        await app.flows.cancel((await order.enqueue()).id)
        assert books.run(KEPT) == [("cancelled", 3 * HOUR), ("cancelled", 3 * HOUR)]


@pytest.mark.requirement("S3.7")
async def test_leases_last_half_a_minute_for_a_worker_and_ten_seconds_for_the_leader(
    dsn: str, books: Books
) -> None:
    async with App(dsn) as app:
        noting(app)
        async with app.worker():
            await until(books.leader, "it leads")
            assert books.value("select expires_at - beat_at from holdfast.worker") == timedelta(seconds=30)
            left = books.value("select expires_at - clock_timestamp() from holdfast.leader")
            assert left <= timedelta(seconds=10)


@pytest.mark.requirement("S3.7")
def test_no_chore_waits_longer_than_its_interval() -> None:
    lease = WorkerOptions().beats.lease
    assert {chore.name: chore.pace(lease)[1] for chore in LEADER_CHORES} == {
        "promote": 30,
        "expire": 30,
        "rescue": 30,
        "time out": 30,
        "ring": 30,
        "unpark": 30,
        "fold": 10,
        "count enqueued": 10,
        "prune": 60,
        "untold": 120,
        "unserved": 60,
        "plan": 30,
        "prune plans": 600,
        "operations": 60,
        "fold failures": 10,
        "flows": 20,
        "groups": 15,
        "admit": 30,
        "sweep_gate": 30,
    }
    assert timedelta(seconds=60) == TEND
