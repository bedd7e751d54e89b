"""Workers inside another program: in a web app's lifespan, several in one process, and a failed start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from acceptance.books import Books
from acceptance.held_statements import locked, someone_waits
from acceptance.in_process_workers import working
from holdfast import App
from holdfast.errors import SchemaOutdated
from support.waiting import until


async def test_a_worker_lives_as_long_as_the_lifespan_around_it(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def answer(number: int) -> int:
            return number + 1

        @asynccontextmanager
        async def lifespan() -> AsyncIterator[None]:
            async with app.worker():
                yield

        async with lifespan():
            assert await (await answer.enqueue(1)).result("10s") == 2
            assert books.value("select count(*) from holdfast.worker") == 1
        assert books.value("select count(*) from holdfast.worker") == 0
        waiting = await answer.enqueue(2)
        assert (await waiting.status()).state == "ready"


async def test_an_error_of_the_block_stays_as_it_is_and_the_worker_is_drained(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @app.job
        async def wait() -> str:
            begun.set()
            await may_end.wait()
            return "drained"

        async def block() -> None:
            async with working(app):
                await wait.enqueue()
                await begun.wait()
                asyncio.get_running_loop().call_later(0.2, may_end.set)
                raise KeyError("the block's own")

        with pytest.raises(KeyError, match="the block's own"):
            await block()
    books.assert_balanced(1)


@pytest.mark.requirement("S2.23", "S3.1", "S3.3")
async def test_two_workers_in_one_process_share_the_work_and_one_leads(dsn: str, books: Books) -> None:
    async with App(dsn) as app:
        runs: dict[int, int] = {}

        @app.job
        async def count(number: int) -> None:
            runs[number] = runs.get(number, 0) + 1
            await asyncio.sleep(0.01)

        async with working(app, slots=5), working(app, slots=5):
            await app.enqueue_many([count.call(number) for number in range(200)])
            await books.all_finished(200)
            await until(books.leader, "one of them leads")
            assert books.value("select count(*) from holdfast.worker") == 2
    assert runs == dict.fromkeys(range(200), 1)
    assert books.value("select count(distinct worker) from holdfast.ledger") == 2
    books.assert_balanced(200)


async def test_a_worker_that_cannot_start_says_why(server_dsn: str) -> None:
    app = App(server_dsn)

    @app.job
    async def never() -> None:
        pass

    with pytest.raises(SchemaOutdated, match="holdfast migrate"):
        async with working(app):
            pytest.fail("the block must not be entered")
    await app.close()


@pytest.mark.requirement("S2.18", "S3.8")
async def test_what_was_due_before_the_worker_came_is_run(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def note() -> None:
            pass

        await app.enqueue_many([note.call() for _ in range(10)])
        await note.using(delay="10ms").enqueue()
        await until(
            lambda: books.value("select bool_and(run_at < clock_timestamp()) from holdfast.scheduled"),
            "it is overdue",
        )
        async with working(app, poll=60):
            await books.all_finished(11)
    books.assert_balanced(11)


LISTENS = """
select count(*) from pg_stat_activity
 where application_name = 'holdfast/listener' and datname = current_database()
   and query like 'listen%holdfast.ready%'
"""


@pytest.mark.requirement("S2.19")
async def test_a_job_without_a_notification_is_found_by_polling(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def note() -> None:
            pass

        async with working(app, poll=0.2):
            # Before it hears notifications a worker looks by itself: that is not what is meant here.
            await until(lambda: books.value(LISTENS), "it listens")
            await (await note.enqueue()).result("10s")
            handle = await note.using(delay="1h").enqueue()
            # Moved by hand, as by a producer whose notification was lost.
            books.run(
                "with taken as (delete from holdfast.scheduled returning job)"
                " insert into holdfast.ready (queue, priority, job, segment, kind, attempt, ready_at)"
                " select 'default', 5, job, ring.current, 'note', 0, now() from taken, holdfast.ring"
            )
            await handle.result("10s")


@pytest.mark.requirement("S3.10")
async def test_a_chore_that_is_held_up_holds_up_no_other(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        async def note() -> None:
            pass

        with locked(dsn, "lock table holdfast.counter in access exclusive mode"):
            async with working(app):
                await note.enqueue()
                await someone_waits(books, "fold")
                handle = await note.using(delay="100ms").enqueue()
                await handle.result("10s")


@pytest.mark.requirement("S3.9")
async def test_a_chore_that_fails_stops_neither_itself_nor_the_others(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    books.run("alter table holdfast.tally rename to elsewhere")
    async with App(dsn) as app:

        @app.job
        async def note() -> None:
            pass

        async with working(app):
            await until(
                lambda: [line for line in caplog.messages if "chore fold fails" in line], "a chore fails"
            )
            books.run("alter table holdfast.elsewhere rename to tally")
            handle = await note.using(delay="100ms").enqueue()
            await handle.result("10s")
