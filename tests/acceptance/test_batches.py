"""Batch handlers: one call for many jobs, each of which keeps its own lease, attempt and outcome."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import ledger, working
from holdfast import App, Batch, BatchContext, BatchFailed, Cancel, Context, Fail, Handle, Retry, Snooze
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidInput, LeaseLost, ResultTimeout
from holdfast.job import Job
from holdfast.storage import chores
from support.engine import SCHEMA, Engine
from support.waiting import until

AT_ONCE = Retry(max_attempts=3, backoff="0s")
WRITE = "insert into effect (job, run) values (%s, %s)"


@dataclass(frozen=True)
class Note:
    number: int
    text: str = ""


# Full with three jobs. What is less would begin only after an hour, in which no test ends.
THREE = Batch(3, of=Note, wait="1h")
SOON = Batch(3, of=Note, wait="50ms")


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app


async def three_of(job: Job[..., Any]) -> list[Handle[Any]]:
    return await job.app.enqueue_many([job.call(number) for number in range(3)])


def outcomes(books: Books, handles: list[Handle[Any]]) -> list[list[str]]:
    return [books.outcomes(handle.id) for handle in handles]


async def ended(books: Books, handles: list[Handle[Any]]) -> None:
    await until(lambda: all(outcomes(books, handles)), "each has had a run")


async def write(ctx: BatchContext, conn: Any) -> None:
    for run in ctx.runs:
        await conn.execute(WRITE, (run.job.id, run.fencing_token))


def take_away(dsn: str, job: int) -> None:
    """One run, as a leader elsewhere would take it that finds it overdue."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with Engine.on(dsn, now=None) as engine:
        engine.connection.execute(
            "update holdfast.lease set timeout_at = now() + interval '9 days' where job <> %s", (job,)
        )
        assert engine.hold(
            chores.rescue_overdue(SCHEMA, luck=0, grace=timedelta(), now=tomorrow, retention=Retention())
        )
        engine.connection.execute("update holdfast.scheduled set run_at = now() + interval '1 hour'")


async def test_a_full_batch_is_one_call_and_each_job_has_its_result(app: App, books: Books) -> None:
    calls: list[list[Note]] = []

    @app.job(batch=THREE)
    async def index(notes: list[Note]) -> list[str]:
        calls.append(notes)
        return [f"{note.text}{note.number}" for note in notes]

    async with working(app):
        handles = [
            await index.enqueue(7),
            await index.enqueue(number=8, text="x"),
            *await app.enqueue_many([index.call(9)]),
        ]
        assert [await handle.result("20s") for handle in handles] == ["7", "x8", "9"]
    assert calls == [[Note(7), Note(8, "x"), Note(9)]]
    books.assert_balanced(3)
    assert books.value("select count(distinct run) from holdfast.ledger") == 3


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_what_is_not_full_begins_after_the_wait_as_a_coroutine_or_in_a_thread(
    app: App, books: Books, is_coroutine: bool
) -> None:
    threads: set[bool] = set()

    def handle(notes: list[Note]) -> None:
        threads.add(threading.current_thread() is threading.main_thread())

    async def handle_awaited(notes: list[Note]) -> None:
        handle(notes)

    index: Job[..., None] = app.job(batch=SOON)(handle_awaited if is_coroutine else handle)
    async with working(app):
        await (await index.enqueue(1)).result("20s")
        await app.enqueue_many([index.call(number) for number in range(7)])
        await books.all_finished(8)
    assert threads == {is_coroutine}
    books.assert_balanced(8)


async def test_jobs_gather_unclaimed_while_others_run_and_cost_no_attempt(app: App, books: Books) -> None:
    @app.job(batch=THREE, timeout="1s")
    async def index(ctx: BatchContext, notes: list[Note]) -> list[int]:
        return [run.attempt for run in ctx.runs]

    @app.job
    async def other(number: int) -> int:
        return number

    async with working(app, slots=1):
        first, dropped = await index.enqueue(1), await index.enqueue(2)
        assert [await (await other.enqueue(number)).result("20s") for number in range(20)] == list(range(20))
        assert [books.state(handle.id) for handle in (first, dropped)] == ["ready", "ready"]
        assert await dropped.cancel()
        assert books.outcomes(dropped.id) == ["cancelled"]
        assert books.value("select attempt from holdfast.ledger where job = %s", dropped.id) == 0
        last = [await index.enqueue(number) for number in (3, 4)]
        assert [await handle.result("20s") for handle in (first, *last)] == [1, 1, 1]


async def test_a_worker_that_stops_while_a_batch_gathers_leaves_it_as_it_was(app: App, books: Books) -> None:
    @app.job(batch=THREE)
    async def index(notes: list[Note]) -> None: ...

    async with working(app):
        handle = await index.enqueue(1)
        await until(lambda: books.state(handle.id) == "ready", "it is ready")
    assert books.run("select attempt from holdfast.ready") == [(0,)]
    assert books.outcomes(handle.id) == []
    async with working(app):
        await index.enqueue(2)
        await index.enqueue(3)
        await books.all_finished(3)
    books.assert_balanced(3)


async def test_a_batch_takes_one_slot_and_slots_are_shared_in_turns(app: App, books: Books) -> None:
    running: list[str] = []
    most = 0

    def begins(kind: str) -> None:
        nonlocal most
        running.append(kind)
        most = max(most, len(running) - done)

    done = 0

    @app.job(batch=Batch(10, of=Note, wait="0s"))
    async def index(notes: list[Note]) -> None:
        nonlocal done
        begins("batch")
        await asyncio.sleep(0)
        done += 1

    @app.job
    async def other(number: int) -> None:
        nonlocal done
        begins("other")
        await asyncio.sleep(0)
        done += 1

    await app.enqueue_many([index.call(number) for number in range(100)])
    await app.enqueue_many([other.call(number) for number in range(100)])
    async with working(app, slots=1):
        await books.all_finished(200)
    books.assert_balanced(200)
    assert most == 1
    assert running.count("batch") == 10
    assert "other" in running[:4], "the batches, which are older, do not hold up the others"
    assert "batch" in running[:4]


@pytest.mark.parametrize("how", ["raised", "said"])
async def test_a_part_fails_each_with_its_error_and_the_rest_succeeds(
    app: App, books: Books, how: str
) -> None:
    @app.job(batch=SOON, retry=AT_ONCE)
    async def index(ctx: BatchContext, notes: list[Note]) -> list[int]:
        broken = {
            place: ValueError(f"no {note.number}")
            for place, note in enumerate(notes)
            if note.number == 1 and ctx.runs[place].attempt < 3
        }
        if how == "said":
            for place, error in broken.items():
                ctx.fail(place, error)
        elif broken:
            raise BatchFailed(broken)
        return [note.number for note in notes]

    async with working(app):
        handles = await three_of(index)
        results = [await handle.result("20s") for handle in handles]
    assert outcomes(books, handles) == [["succeeded"], ["retried", "retried", "succeeded"], ["succeeded"]]
    assert results == ([0, 1, 2] if how == "said" else [None, 1, None])
    assert ledger(app, books, handles[1].id)[0]["error"]["message"] == "no 1"


async def test_errors_of_a_part_may_be_requests(app: App, books: Books) -> None:
    @app.job(batch=THREE)
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        raise BatchFailed({0: Cancel("nothing to do"), 1: Fail("never"), 2: Snooze("1h")})

    async with working(app):
        handles = await three_of(index)
        await until(lambda: outcomes(books, handles) == [["cancelled"], ["failed"], ["snoozed"]])


async def test_what_a_handler_raises_or_asks_for_goes_for_every_job(app: App, books: Books) -> None:
    @app.job(batch=THREE, retry=Retry(max_attempts=1))
    async def index(notes: list[Note]) -> None:
        raise RuntimeError("all of it")

    @app.job(batch=THREE)
    def later(notes: list[Note]) -> None:
        raise Snooze("1h")

    @app.job(batch=THREE, retry=Retry(max_attempts=1))
    async def wrong(notes: list[Note]) -> None:
        raise BatchFailed({3: ValueError("there is none")})

    async with working(app):
        failed, snoozed, named = await three_of(index), await three_of(later), await three_of(wrong)
        await until(lambda: outcomes(books, failed + named) == [["failed"]] * 6)
        await until(lambda: outcomes(books, snoozed) == [["snoozed"]] * 3)
    assert ledger(app, books, failed[2].id)[0]["error"]["message"] == "all of it"
    assert "names 3, and the batch has 3 jobs" in ledger(app, books, named[0].id)[0]["error"]["message"]


async def test_results_that_do_not_fit_are_dropped_and_no_job_runs_again(
    app: App, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job(batch=THREE)
    async def index(notes: list[Note]) -> list[int]:
        return [1]

    async with working(app):
        handles = await three_of(index)
        assert [await handle.result("20s") for handle in handles] == [None] * 3
    assert {ledger(app, books, handle.id)[0]["flag"] for handle in handles} == {"result_unencodable"}
    assert "1 results for 3 jobs" in caplog.text


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_a_transaction_completes_all_jobs_with_what_was_written(
    app: App, books: Books, is_coroutine: bool
) -> None:
    @app.job(batch=THREE)
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        async with ctx.transaction() as conn:
            await write(ctx, conn)
            ctx.runs[1].complete_with("one")

    @app.job(batch=THREE)
    def index_in_a_thread(ctx: BatchContext, notes: list[Note]) -> None:
        with ctx.transaction(isolation="serializable") as conn:
            for run in ctx.runs:
                conn.execute(WRITE, (run.job.id, run.fencing_token))
            ctx.runs[1].complete_with("one")

    async with working(app):
        handles = await three_of(index if is_coroutine else index_in_a_thread)
        await books.all_finished(3)
    books.assert_balanced(3)
    books.assert_effects_once(3)
    ends = [ledger(app, books, handle.id)[0] for handle in handles]
    assert [end["flag"] for end in ends] == ["completed_in_transaction", None, "completed_in_transaction"]
    assert ends[1]["result"] == "one"


@pytest.mark.parametrize("is_batch", [True, False])
async def test_a_transaction_hands_on_the_permits_of_limited_jobs(
    app: App, books: Books, is_batch: bool
) -> None:
    few = app.limit("few", total=2)

    @app.job(batch=SOON, limit=few)
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        assert len(notes) <= 2
        async with ctx.transaction() as conn:
            await write(ctx, conn)

    @app.job(limit=few)
    async def index_one(ctx: Context, number: int) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(WRITE, (ctx.job.id, ctx.fencing_token))

    job: Job[..., None] = index if is_batch else index_one
    async with working(app):
        await app.enqueue_many([job.call(number) for number in range(6)])
        await books.all_finished(6)
    books.assert_balanced(6)
    books.assert_effects_once(6)


async def test_a_transaction_leaves_out_the_jobs_that_the_handler_fails(app: App, books: Books) -> None:
    @app.job(batch=SOON, retry=AT_ONCE)
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        async with ctx.transaction() as conn:
            for place, run in enumerate(ctx.runs):
                if notes[place].number == 1 and run.attempt == 1:
                    ctx.fail(place, ValueError("not this time"))
                else:
                    await conn.execute(WRITE, (run.job.id, run.fencing_token))

    async with working(app):
        handles = await three_of(index)
        await books.all_finished(3)
    assert outcomes(books, handles) == [["succeeded"], ["retried", "succeeded"], ["succeeded"]]
    books.assert_effects_once(3)


async def test_a_part_that_fails_inside_the_block_rolls_it_back_and_costs_the_others_nothing(
    app: App, books: Books
) -> None:
    @app.job(batch=SOON, retry=AT_ONCE)
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        async with ctx.transaction() as conn:
            await write(ctx, conn)
            broken = [
                place for place, run in enumerate(ctx.runs) if notes[place].number == 1 and run.attempt == 1
            ]
            if broken:
                raise BatchFailed({broken[0]: ValueError("not this time")})

    async with working(app):
        handles = await three_of(index)
        await books.all_finished(3)
    assert outcomes(books, handles) == [
        ["released", "succeeded"],
        ["retried", "succeeded"],
        ["released", "succeeded"],
    ]
    assert [ledger(app, books, handle.id)[-1]["attempt"] for handle in handles] == [1, 2, 1]
    books.assert_effects_once(3)


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_one_job_that_lost_its_lease_keeps_the_whole_transaction_from_being_written(
    app: App, dsn: str, books: Books, is_coroutine: bool
) -> None:
    refused: list[int] = []
    taken: list[int] = []

    def lose_one(ctx: BatchContext) -> None:
        if not taken:
            taken.append(ctx.runs[1].job.id)
            take_away(dsn, taken[0])

    @app.job(batch=SOON, retry=AT_ONCE)
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        try:
            async with ctx.transaction() as conn:
                await write(ctx, conn)
                lose_one(ctx)
        except LeaseLost as lost:
            refused.append(lost.job)
            raise

    @app.job(batch=SOON, retry=AT_ONCE)
    def index_in_a_thread(ctx: BatchContext, notes: list[Note]) -> None:
        try:
            with ctx.transaction() as conn:
                for run in ctx.runs:
                    conn.execute(WRITE, (run.job.id, run.fencing_token))
                lose_one(ctx)
        except LeaseLost as lost:
            refused.append(lost.job)
            raise

    async with working(app, lease=60, is_leading_allowed=False):
        handles = await three_of(index if is_coroutine else index_in_a_thread)
        await until(lambda: books.finished() == 2, "the other two are done")
    assert refused == taken == [handles[1].id]
    assert outcomes(books, handles) == [["released", "succeeded"], ["retried"], ["released", "succeeded"]]
    assert [ledger(app, books, handles[place].id)[-1]["attempt"] for place in (0, 2)] == [1, 1]
    books.assert_effects_once(2)


async def test_one_job_that_lost_its_lease_is_not_settled_and_the_others_are(
    app: App, dsn: str, books: Books
) -> None:
    seen: list[bool] = []
    told: list[int] = []

    @app.job(batch=THREE, retry=AT_ONCE, on_lease_lost=lambda ctx: told.append(ctx.job.id))
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        take_away(dsn, ctx.runs[0].job.id)
        await until(lambda: ctx.runs[0].is_lost, "the worker knows")
        seen.extend(run.is_lost for run in ctx.runs)

    async with working(app, lease=60, is_leading_allowed=False):
        handles = await three_of(index)
        await until(lambda: books.finished() == 2, "the others are done")
    assert seen == [True, False, False]
    assert told == [handles[0].id]
    assert outcomes(books, handles) == [["retried"], ["succeeded"], ["succeeded"]]


async def test_a_job_that_is_cancelled_ends_so_if_the_handler_has_looked(app: App, books: Books) -> None:
    asked: list[Callable[[], Awaitable[object]]] = []

    @app.job(batch=THREE)
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        await asked.pop()()
        await until(lambda: ctx.runs[0].is_cancelled, "the worker knows")
        assert not ctx.is_cancelled

    @app.job(batch=THREE)
    async def index_without_a_look(ctx: BatchContext, notes: list[Note]) -> None:
        await asked.pop()()
        await until(lambda: ctx.runs[0]._claimed.stop is not None, "the worker knows")

    async with working(app):
        for job, first in ((index, "cancelled"), (index_without_a_look, "succeeded")):
            handles = await three_of(job)
            asked.append(handles[0].cancel)
            await ended(books, handles)
            assert outcomes(books, handles) == [[first], ["succeeded"], ["succeeded"]]


async def test_a_handler_is_stopped_when_every_job_is_cancelled(app: App, books: Books) -> None:
    running = asyncio.Event()

    @app.job(batch=THREE)
    async def index(notes: list[Note]) -> None:
        running.set()
        await asyncio.Event().wait()

    async with working(app):
        handles = await three_of(index)
        await running.wait()
        for handle in handles:
            await handle.cancel()
        await until(lambda: outcomes(books, handles) == [["cancelled"]] * 3, "all are cancelled")


async def test_the_timeout_is_that_of_the_whole_call_and_a_shutdown_costs_no_attempt(
    app: App, books: Books
) -> None:
    running = asyncio.Event()

    @app.job(batch=THREE, timeout="100ms", retry=Retry(max_attempts=1))
    async def slow(notes: list[Note]) -> None:
        await asyncio.Event().wait()

    @app.job(batch=THREE)
    async def endless(notes: list[Note]) -> None:
        running.set()
        await asyncio.Event().wait()

    async with working(app, grace=0.01):
        overdue = await three_of(slow)
        await until(lambda: outcomes(books, overdue) == [["failed"]] * 3, "they are overdue")
        released = await three_of(endless)
        await running.wait()
    assert ledger(app, books, overdue[0].id)[0]["error"]["code"] == "timeout"
    assert outcomes(books, released) == [["released"]] * 3
    assert books.run("select attempt from holdfast.ready") == [(0,)] * 3


async def test_a_job_whose_arguments_do_not_fit_is_left_out_of_the_call(app: App, books: Books) -> None:
    calls: list[list[int]] = []

    @app.job(batch=THREE)
    async def index(notes: list[Note]) -> None:
        calls.append([note.number for note in notes])

    handles = await three_of(index)
    books.run("update holdfast.job set args = '{\"sum\": 1}' where id = %s", handles[1].id)
    async with working(app):
        await until(lambda: all(outcomes(books, handles)), "all have ended once")
    assert calls == [[0, 2]]
    assert outcomes(books, handles) == [["succeeded"], ["snoozed"], ["succeeded"]]
    assert ledger(app, books, handles[1].id)[0]["error"]["code"] == "decode_error"


async def test_hooks_are_called_for_each_job(app: App, books: Books) -> None:
    told: list[tuple[str, int]] = []

    @app.job(
        batch=THREE,
        retry=Retry(max_attempts=1),
        on_start=lambda ctx: told.append(("start", ctx.job.id)),
        on_success=lambda ctx: told.append(("success", ctx.job.id)),
        on_dead=lambda ctx, error: told.append((str(error), ctx.job.id)),
    )
    async def index(notes: list[Note]) -> None:
        raise BatchFailed({1: ValueError("one")})

    async with working(app):
        handles = await three_of(index)
        await books.all_finished(3)
    one, two, three = (handle.id for handle in handles)
    assert set(told) == {
        *(("start", job) for job in (one, two, three)),
        *(("success", job) for job in (one, three)),
        ("one", two),
    }


async def test_log_lines_of_the_handler_are_kept_with_every_job(app: App, books: Books) -> None:
    @app.job(batch=THREE, keep_logs="always")
    async def index(ctx: BatchContext, notes: list[Note]) -> None:
        ctx.log.warning("%d notes", len(notes))

    async with working(app):
        handles = await three_of(index)
        await books.all_finished(3)
    for handle in handles:
        assert [line.message for line in (await app.jobs.logs(handle.id)).lines] == ["3 notes"]


async def test_each_job_has_a_context_but_no_transaction_of_its_own(app: App, books: Books) -> None:
    @app.job(batch=SOON, retry=AT_ONCE)
    async def index(ctx: BatchContext, notes: list[Note]) -> list[list[int]]:
        with pytest.raises(InvalidInput, match="one of a batch"):
            ctx.runs[0].transaction()
        with pytest.raises(InvalidInput, match="names 3, and the batch has"):
            ctx.fail(3, ValueError())
        for place, run in enumerate(ctx.runs):
            seen = run.state.setdefault("seen", [])
            seen.append(notes[place].number)
            if notes[place].number == 1 and run.attempt == 1:
                ctx.fail(place, ValueError("once more"))
        return [run.state["seen"] for run in ctx.runs]

    async with working(app):
        handles = await three_of(index)
        assert [await handle.result("20s") for handle in handles] == [[0], [1, 1], [2]]


async def test_a_paused_queue_begins_no_batch(app: App, books: Books) -> None:
    @app.job(batch=THREE)
    async def index(notes: list[Note]) -> None: ...

    async with working(app, poll=0.2):
        await app.queues.pause("default", create=True)
        handles = await three_of(index)
        with pytest.raises(ResultTimeout):
            await handles[0].result("300ms")
        assert outcomes(books, handles) == [[], [], []]
        await app.queues.resume("default")
        await books.all_finished(3)
    books.assert_balanced(3)
