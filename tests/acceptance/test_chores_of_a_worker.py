"""Chores of a running leader, seen in the database; no test calls a chore itself."""

import asyncio

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import noting, working
from holdfast import App, Context, Retry
from holdfast.telemetry.events import ChoreDid, Event
from support.waiting import until

ENDED = """
with ended as (
  insert into holdfast.job (created_at, priority, max_attempts, kind, queue, args)
  select now() - interval '2 days', 5, 20, 'note', 'default', '{}' from generate_series(1, %s)
  returning id
)
insert into holdfast.ledger
       (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind)
select id, nextval('holdfast.run'), now() - interval '2 days', now() - interval '1 day',
       'succeeded', 1, true, 'default', 'note'
  from ended
"""
# A pass of the pruner deletes 1,000, and the next one comes five seconds later unless it goes on at once.
MANY = 12_500
SOON = 30
RING = "select max(version) from holdfast.ring"
EMPTY = """
select count(*) from pg_inherits
 where inhparent = 'holdfast.ready'::regclass and inhrelid::regclass::text like '%ready__'
   and pg_relation_size(inhrelid) = 0
"""


def kept(books: Books) -> int:
    return int(books.value("select count(*) from holdfast.job"))


@pytest.mark.timeout(180)
@pytest.mark.requirement("S3.30", "S3.31")
async def test_a_worker_prunes_until_nothing_is_left_and_comes_back_for_more(dsn: str, books: Books) -> None:
    books.run(ENDED, MANY)
    async with App(dsn) as app:
        noting(app)
        async with working(app):
            await until(lambda: kept(books) == 0, "all are pruned, pass by pass without a pause", within=SOON)
            assert books.value("select count(*) from holdfast.ledger") == 0
            books.run(ENDED, 3)
            await until(lambda: kept(books) == 0, "what is old enough by now is pruned too", within=SOON)


@pytest.mark.requirement("S3.22", "S3.25")
async def test_a_leader_takes_away_what_its_worker_did_not_time_out(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        @app.job(timeout="1h", retry=Retry(max_attempts=3, backoff="0s"))
        async def linger(ctx: Context) -> int:
            if ctx.attempt == 1:
                begun.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.set()
                    raise
            return ctx.attempt

        async with working(app, is_leading_allowed=False, lease=60):
            handle = await linger.enqueue()
            await begun.wait()
            # As if it had been so long: the worker itself still counts its hour.
            books.run("update holdfast.lease set timeout_at = now() - interval '31 s'")
            async with working(app):
                assert await handle.result("30s") == 2
            await until(cancelled.is_set, "the handler whose run was taken away is cancelled")
    assert books.outcomes(handle.id) == ["retried", "succeeded"]
    [(code,)] = books.run("select error ->> 'code' from holdfast.ledger where error is not null")
    assert code == "stale_timeout"


@pytest.mark.requirement("S3.22")
async def test_a_run_within_its_timeout_is_left_alone(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @app.job(timeout="1h")
        async def linger() -> None:
            begun.set()
            await may_end.wait()

        async with working(app, is_leading_allowed=False, lease=60):
            handle = await linger.enqueue()
            await begun.wait()
            # Past its end, but not past the grace in which its own worker may time it out.
            books.run("update holdfast.lease set timeout_at = now() - interval '1 s'")
            async with working(app):
                await until(books.leader, "the other one leads")
                due = await linger.using(delay="1ms").enqueue()
                await until(lambda: books.state(due.id) == "running", "the leader has done its first round")
                may_end.set()
                await books.all_finished(2)
    assert books.outcomes(handle.id) == ["succeeded"]


@pytest.mark.requirement("S3.28")
async def test_a_worker_promotes_a_flood_in_bounded_passes(dsn: str, books: Books) -> None:
    passes: list[int] = []

    def note_pass(event: Event) -> None:
        if isinstance(event, ChoreDid) and event.chore == "promote":
            passes.append(event.count)

    async with App(dsn, readers=[note_pass]) as app:
        note = noting(app)
        await app.enqueue_many([note.using(delay="1h").call() for _ in range(9_000)])
        books.run("update holdfast.scheduled set run_at = now() - interval '1 s'")
        async with working(app, slots=100):
            await books.all_finished(9_000)
    assert sum(passes) == 9_000
    assert max(passes) <= 4_000


async def test_a_worker_expires_what_waits_past_its_deadline(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        note = noting(app)
        late = await note.using(queue="unserved", deadline="300ms").enqueue()
        async with working(app):
            await until(lambda: books.state(late.id) == "expired", "it expires", within=SOON)


async def test_a_worker_folds_what_was_counted(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        note = noting(app)
        for _ in range(3):
            await note.enqueue()
        async with working(app):
            await books.all_finished(3)
        # The next leader folds at once what the last one has left.
        async with working(app):
            await until(
                lambda: (
                    books.value("select coalesce(sum(runs), 0) from holdfast.counter") == 3
                    and books.value("select count(*) from holdfast.tally") == 0
                ),
                "the counters know of them",
                within=SOON,
            )


async def test_a_worker_turns_the_ring_and_gives_space_back(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        note = noting(app)
        version = books.value(RING)
        await app.enqueue_many([note.call() for _ in range(12_000)])
        async with working(app, slots=100):
            await books.all_finished(12_000)
            await until(lambda: books.value(RING) > version, "the ring turns")
            await until(lambda: books.value(EMPTY) >= 3, "what was drained is truncated")
