"""A handle tells its job's state, its result or how it ended otherwise, and can cancel it."""

import asyncio
import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from api.observer import Observer
from holdfast import App, Cancel, Context, Fail, Handle, Retry
from holdfast.errors import InvalidInput, JobEnded, JobNotFound, ResultTimeout, Undecodable
from support.waiting import until

ONCE = Retry(max_attempts=1)


@dataclass
class Receipt:
    number: int
    total: Decimal


async def is_at(handle: Handle[Any], progress: dict[str, object]) -> bool:
    return (await handle.status()).progress == progress


async def is_in(handle: Handle[Any], state: str) -> bool:
    return (await handle.status()).state == state


async def test_status_tells_where_a_job_stands(app: App) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job(queue="mail")
    async def work(ctx: Context) -> None:
        ctx.progress(50, "half", pages=3)
        begun.set()
        await go.wait()

    handle = await work.using(delay="1s").enqueue()
    later = await handle.status()
    assert (later.id, later.kind, later.queue) == (handle.id, "work", "mail")
    assert (later.state, later.attempt, later.max_attempts) == ("scheduled", 0, 20)
    assert later.run_at is not None
    assert later.run_at - later.created_at == timedelta(seconds=1)
    assert (later.finished_at, later.error, later.progress, later.is_final) == (None, None, None, False)

    async with app.worker():
        await asyncio.wait_for(begun.wait(), 60)
        running = await handle.status()
        assert (running.state, running.attempt, running.run_at) == ("running", 1, None)
        await until(lambda: is_at(handle, {"value": 50, "note": "half", "pages": 3}))
        go.set()
        await handle.result(timeout="60s")
    done = await handle.status()
    assert (done.state, done.attempt, done.is_final) == ("succeeded", 1, True)
    assert done.finished_at is not None
    assert done.finished_at >= done.created_at


async def test_a_result_arrives_as_its_type(app: App) -> None:
    @app.job
    async def pay(cents: int) -> Receipt:
        return Receipt(7, Decimal(cents) / 100)

    @app.job
    def count(words: list[str]) -> dict[str, int]:
        return {word: len(word) for word in words}

    @app.job
    def nothing() -> None: ...

    async with app.worker():
        handles: list[Handle[Any]] = [
            await pay.enqueue(1250),
            await count.enqueue(["a", "bc"]),
            await count.enqueue([]),
            await nothing.enqueue(),
        ]
        results = [await handle.result(timeout="60s") for handle in handles]
        assert results == [Receipt(7, Decimal("12.5")), {"a": 1, "bc": 2}, {}, None]
        assert await asyncio.to_thread(handles[0].result_sync, "60s") == results[0]
        assert (await asyncio.to_thread(handles[0].status_sync)).state == "succeeded"


@pytest.mark.parametrize("result", [None, {}, [], "", 0, False, 0.5, "null", {"a": None}])
async def test_every_json_value_can_be_a_result(app: App, result: object) -> None:
    @app.job
    async def work() -> Any:
        return result

    async with app.worker():
        found = await (await work.enqueue()).result(timeout="60s")
    assert (found, type(found)) == (result, type(result))


async def test_a_result_that_is_too_large_was_dropped_and_the_job_has_succeeded(
    app: App, observer: Observer
) -> None:
    @app.job
    async def work() -> str:
        return "x" * 20_000

    @app.job
    async def strange() -> object:
        return object()

    strange.function.__annotations__["return"] = "int"
    async with app.worker():
        handles: list[Handle[Any]] = [await work.enqueue(), await strange.enqueue()]
        assert [await handle.result(timeout="60s") for handle in handles] == [None, None]
        flags = [(await handle.status()).flag for handle in handles]
    assert flags == [job["flag"] for job in observer.jobs()] == ["result_too_large", "result_unencodable"]
    assert [job["state"] for job in observer.jobs()] == ["succeeded", "succeeded"]


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
async def test_a_result_that_was_dropped_is_warned_of_in_the_log(
    app: App, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, "holdfast.worker")

    @app.job
    async def work() -> str:
        return "x" * 20_000

    @app.job
    async def commit(ctx: Context) -> None:
        async with ctx.transaction():
            ctx.complete_with("x" * 20_000)

    @app.job
    async def soundly(ctx: Context) -> str:
        async with ctx.transaction():
            pass
        return "comes after the commit, as documented"

    async with app.worker():
        handles: list[Handle[Any]] = [await job.enqueue() for job in (work, commit, soundly)]
        for handle in handles:
            await handle.result(timeout="60s")
    said = [record for record in caplog.records if "attempt succeeded" in record.getMessage()]
    warned = [record.getMessage() for record in said if record.levelno == logging.WARNING]
    assert sorted(line.split("kind=")[1].split()[0] for line in warned) == ["commit", "work"]
    assert all(line.endswith(" flag=result_too_large") for line in warned)
    others = [record.getMessage() for record in said if record.levelno != logging.WARNING]
    assert len(others) == (level == logging.INFO)
    assert not any("flag" in line for line in others)


async def test_a_result_of_another_type_is_left_to_its_reader(app: App) -> None:
    @app.job
    async def work() -> int:
        return "seven"  # type: ignore[return-value]  # its point

    async with app.worker():
        handle = await work.enqueue()
        with pytest.raises(Undecodable, match=r"work\(\)") as raised:
            await handle.result(timeout="60s")
    assert raised.value.text == '"seven"'
    assert (await handle.status()).state == "succeeded"


@pytest.mark.parametrize("wait", ["50ms", timedelta(milliseconds=50), "0s"])
async def test_a_result_is_not_waited_for_longer_than_asked(app: App, wait: str | timedelta) -> None:
    @app.job
    def work() -> None: ...

    handle = await work.enqueue()
    with pytest.raises(ResultTimeout, match=f"job {handle.id} has not ended within") as late:
        await handle.result(wait)
    assert late.value.job == handle.id
    assert isinstance(late.value, TimeoutError)
    with pytest.raises(ResultTimeout):
        await asyncio.to_thread(handle.result_sync, wait)
    assert (await handle.status()).state == "ready"


async def has_failed(handle: Handle[Any]) -> bool:
    return (await handle.status()).error is not None


async def told(handle: Handle[Any]) -> ResultTimeout:
    with pytest.raises(ResultTimeout) as late:
        await handle.result("0s")
    with pytest.raises(ResultTimeout) as late_too:
        await asyncio.to_thread(handle.result_sync, "0s")
    assert str(late.value) == str(late_too.value)
    return late.value


async def test_a_result_that_is_late_tells_that_no_worker_is_alive(app: App) -> None:
    @app.job
    def work() -> None: ...

    late = await told(await work.enqueue())
    assert "it is ready, but no worker is alive" in str(late)
    assert (late.state, late.is_queue_served, late.is_kind_known) == ("ready", False, False)
    late = await told(await work.using(delay="1h").enqueue())
    assert "it is scheduled for" in str(late)
    assert "but no worker is alive" in str(late)
    assert late.state == "scheduled"


async def test_a_result_that_is_late_tells_which_queue_or_kind_no_worker_serves(app: App, dsn: str) -> None:
    @app.job(queue="mail")
    def work() -> None: ...

    async with app.worker():
        late = await told(await work.using(queue="mial").enqueue())
        assert 'no live worker serves its queue "mial"; did you mean "mail"?' in str(late)
        assert (late.state, late.is_queue_served, late.is_kind_known) == ("ready", False, True)

        async with App(dsn) as another:
            misspelt = await another.job(queue="mail", name="wrok")(work.function).enqueue()
            late = await told(misspelt)
        assert 'no live worker knows its kind "wrok"; did you mean "work"?' in str(late)
        assert (late.is_queue_served, late.is_kind_known) == (True, False)

        served = await told(await work.using(delay="1h").enqueue())
        assert "it is scheduled for" in str(served)
        assert "it goes on, ask again later" in str(served)
        assert (served.is_queue_served, served.is_kind_known) == (True, True)

        await app.queues.pause("mail")
        late = await told(await work.enqueue())
        assert 'its queue "mail" is paused: resume it with app.queues.resume("mail")' in str(late)


async def test_a_result_that_is_late_tells_that_its_job_runs(app: App) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @app.job
    async def work() -> None:
        begun.set()
        await go.wait()

    async with app.worker():
        handle = await work.enqueue()
        await asyncio.wait_for(begun.wait(), 60)
        late = await told(handle)
        assert "it is running, attempt 1 of 20; it goes on, ask again later" in str(late)
        assert (late.state, late.is_queue_served, late.is_kind_known) == ("running", None, None)
        go.set()


async def test_status_has_the_last_error_while_a_job_waits_to_be_tried_again(app: App) -> None:
    @app.job(retry=Retry(backoff="1h"))
    async def work() -> None:
        raise ValueError("no such mailbox")

    handle = await work.enqueue()
    async with app.worker():
        await until(lambda: has_failed(handle))
        status = await handle.status()
        assert status.error is not None
        assert (status.error["type"], status.error["message"]) == ("ValueError", "no such mailbox")
        assert (status.state, status.attempt, status.is_final) == ("scheduled", 1, False)
        assert await asyncio.to_thread(handle.status_sync) == status
        assert "UTC, its last error is ValueError: no such mailbox; it goes on" in str(await told(handle))


async def test_a_wait_of_nothing_tells_what_has_ended(app: App) -> None:
    @app.job
    async def work() -> str:
        return "done"

    async with app.worker():
        handle = await work.enqueue()
        assert await handle.result() == "done"
    assert await handle.result(timeout="0s") == "done"
    assert await asyncio.to_thread(handle.result_sync, timedelta()) == "done"


async def test_a_wait_is_a_length_with_its_unit(app: App) -> None:
    @app.job
    def work() -> None: ...

    handle = await work.enqueue()
    with pytest.raises(InvalidInput, match="timeout is 10"):
        await handle.result(10)  # type: ignore[arg-type]  # as an untyped caller may
    with pytest.raises(InvalidInput, match="timeout is 10"):
        await asyncio.to_thread(handle.result_sync, 10)  # type: ignore[arg-type]  # as an untyped caller may


async def test_a_coroutine_that_would_block_its_own_event_loop_is_told_to_await(app: App) -> None:
    @app.job
    async def inner() -> str:
        return "done"

    @app.job(retry=Retry(max_attempts=1))
    async def outer() -> str:
        return (await inner.enqueue()).result_sync("20s")

    async with app.worker():
        with pytest.raises(JobEnded, match=r"use await handle.result"):
            await (await outer.enqueue()).result("20s")


class OutOfPaper(Exception):
    pass


async def test_a_job_that_failed_says_with_what(app: App) -> None:
    @app.job(retry=ONCE)
    async def work() -> None:
        raise OutOfPaper("tray 2") from OSError("jammed")

    async with app.worker():
        handle = await work.enqueue()
        with pytest.raises(JobEnded, match=rf"job {handle.id} failed \(.*OutOfPaper: tray 2\)") as ended:
            await handle.result(timeout="60s")
    assert (ended.value.job, ended.value.state) == (handle.id, "failed")
    error = ended.value.error
    assert (error["code"], error["message"]) == ("handler_error", "tray 2")
    assert error["type"] == f"{__name__}.OutOfPaper"
    assert error["causes"] == ["OSError: jammed"]
    assert "raise OutOfPaper" in str(error["traceback"])
    status = await handle.status()
    assert (status.state, status.error, status.is_final) == ("failed", error, True)
    with pytest.raises(JobEnded):
        await asyncio.to_thread(handle.result_sync, "60s")


@pytest.mark.parametrize(
    ("asked", "state", "words"),
    [(Cancel("sold out"), "cancelled", "Cancel: sold out"), (Fail("bad card"), "failed", "Fail: bad card")],
)
async def test_a_handler_can_end_its_job(app: App, asked: Exception, state: str, words: str) -> None:
    @app.job
    async def work() -> None:
        raise asked

    async with app.worker():
        handle = await work.enqueue()
        with pytest.raises(JobEnded, match=words) as ended:
            await handle.result(timeout="60s")
    assert ended.value.state == state


async def test_a_waiting_job_is_cancelled_at_once(app: App) -> None:
    @app.job
    async def work() -> None: ...

    now, later = await work.enqueue(), await work.using(delay="1h").enqueue()
    assert await now.cancel("sold out") == "cancelled"
    assert await asyncio.to_thread(later.cancel_sync) == "cancelled"
    assert await now.cancel() == "final"
    for handle, reason in [(now, "sold out"), (later, "cancelled on request")]:
        with pytest.raises(JobEnded, match=f"cancelled .*{reason}") as ended:
            await handle.result(timeout="60s")
        assert (ended.value.state, ended.value.error["code"]) == ("cancelled", "cancelled")


async def test_a_running_job_is_asked_to_end(app: App) -> None:
    begun, stopped = asyncio.Event(), threading.Event()

    @app.job
    async def awaiting() -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.job
    def looking(ctx: Context) -> None:
        while not ctx.is_cancelled:
            stopped.wait(0.01)
        stopped.set()

    async with app.worker():
        first, second = await awaiting.enqueue(), await looking.enqueue()
        await asyncio.wait_for(begun.wait(), 60)
        await until(lambda: is_in(second, "running"))
        assert await app.jobs.cancel([first.id, second.id]) == {first.id: "requested", second.id: "requested"}
        for handle in (first, second):
            with pytest.raises(JobEnded, match="cancelled"):
                await handle.result(timeout="60s")
        assert await asyncio.to_thread(stopped.wait, 60)


async def test_a_job_that_is_gone_is_not_found(app: App, observer: Observer) -> None:
    @app.job
    def work() -> None: ...

    handle = await work.enqueue()
    for table in ("ready", "job"):
        observer.connection.execute(f"delete from holdfast.{table}")
    with pytest.raises(JobNotFound, match=f"job {handle.id} does not exist") as missing:
        await handle.status()
    assert isinstance(missing.value, LookupError)
    with pytest.raises(JobNotFound):
        await handle.result(timeout="60s")
    with pytest.raises(JobNotFound):
        await asyncio.to_thread(handle.status_sync)
    with pytest.raises(JobNotFound):
        await asyncio.to_thread(handle.result_sync, "60s")
    assert await handle.cancel() == "unknown"


async def test_a_handle_shows_its_job(app: App) -> None:
    @app.job
    def work() -> None: ...

    handle = await work.enqueue()
    assert repr(handle) == f"<Handle of job {handle.id}>"


async def test_a_job_that_is_known_by_its_id_has_a_handle(app: App) -> None:
    @app.job
    async def buy(number: int) -> Receipt:
        return Receipt(number, Decimal("9.90"))

    async with app.worker():
        known = (await buy.enqueue(7)).id
        assert await buy.handle(known).result("20s") == Receipt(7, Decimal("9.90"))
        assert await app.handle(known).result("20s") == {"number": 7, "total": "9.90"}
    assert (await app.handle(known).status()).kind == "buy"
    assert await asyncio.to_thread(app.handle(known).result_sync, "20s") == {"number": 7, "total": "9.90"}
    with pytest.raises(JobNotFound):
        await buy.handle(999_999).status()
    with pytest.raises(InvalidInput):
        buy.handle("7")  # type: ignore[arg-type]  # as an untyped caller may


async def test_the_reason_for_cancelling_a_running_job_is_told(app: App) -> None:
    begun = asyncio.Event()

    @app.job
    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app.worker():
        handle = await work.enqueue()
        await begun.wait()
        assert await handle.cancel(reason="the customer has left") == "requested"
        with pytest.raises(JobEnded, match="the customer has left"):
            await handle.result("20s")
