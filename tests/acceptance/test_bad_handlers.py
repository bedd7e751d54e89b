"""Anything a handler does ends its own attempt, and nothing else."""

import asyncio
import sys
import threading
import time
from functools import wraps
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import NO_MORE, ONCE_MORE, ledger, working
from holdfast import App, Cancel, Context, Fail, Retry, RetryLater, Snooze
from holdfast.worker import attempt_runner
from support.waiting import until


class Broken(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot even be shown")


def leave() -> None:
    sys.exit(3)


def stop() -> None:
    raise StopIteration


def interrupt() -> None:
    raise asyncio.CancelledError


def be_broken() -> None:
    raise Broken


class Panic(BaseException):
    """As a Rust extension raises it."""


def panic() -> None:
    raise Panic("index out of bounds")


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


def close() -> None:
    raise GeneratorExit


BAD: dict[str, Any] = {
    "exits": leave,
    "stops": stop,
    "cancels itself": interrupt,
    "is broken": be_broken,
    "panics": panic,
    "interrupts": press_ctrl_c,
    "closes": close,
}


@pytest.mark.requirement("S2.33")
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("style", ["coroutine", "thread"])
async def test_a_handler_that_behaves_badly_fails_its_attempt_only(
    dsn: str, books: Books, bad: str, style: str
) -> None:
    async with App(dsn) as app:

        async def awaited() -> None:
            BAD[bad]()

        misbehave: Any = app.job(name="misbehave", retry=NO_MORE)(
            awaited if style == "coroutine" else BAD[bad]
        )

        @app.job
        async def behave() -> str:
            return "well"

        async with working(app):
            handle = await misbehave.enqueue()
            await books.all_finished(1, within=10)
            assert await (await behave.enqueue()).result("10s") == "well"
    [entry] = ledger(app, books, handle.id)
    assert entry["outcome"] == "failed"
    assert entry["error"]["code"] == "handler_error"


class Raising(dict[str, int]):
    """Empty dicts are written without a look into them."""

    def __init__(self) -> None:
        super().__init__(it=1)

    def items(self) -> Any:
        raise LookupError("cannot be looked into")


@pytest.mark.requirement("S1.26", "S0.27")
@pytest.mark.parametrize("value", [object(), "\0", float("nan"), "\ud800", Raising()])
async def test_a_state_that_cannot_be_stored_fails_the_attempt_only(
    dsn: str, books: Books, value: object
) -> None:
    async with App(dsn) as app:

        @app.job(retry=NO_MORE)
        async def remember(ctx: Context) -> None:
            ctx.state["it"] = value
            raise Snooze("1s")

        @app.job
        async def behave() -> str:
            return "well"

        async with working(app):
            handle = await remember.enqueue()
            await books.all_finished(1, within=10)
            assert await (await behave.enqueue()).result("10s") == "well"
    [entry] = ledger(app, books, handle.id)
    assert entry["outcome"] == "failed"
    assert entry["error"]["message"].startswith("ctx.state cannot be kept: ")


async def test_a_state_that_cannot_be_stored_hides_no_error_of_the_handler(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job(retry=NO_MORE)
        async def remember(ctx: Context) -> None:
            ctx.state["it"] = object()
            raise RuntimeError("the real reason")

        async with working(app):
            handle = await remember.enqueue()
            await books.all_finished(1, within=10)
    assert ledger(app, books, handle.id)[0]["error"]["message"] == "the real reason"


def wrapped(function: Any) -> Any:
    """As many decorators do: a plain function around any handler."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def test_a_plain_function_around_a_coroutine_is_run_to_its_end(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job
        @wrapped
        async def double(number: int) -> int:
            await asyncio.sleep(0)
            return 2 * number

        async with working(app):
            assert await (await double.enqueue(21)).result("10s") == 42


async def test_a_plain_function_around_a_generator_fails(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job(retry=NO_MORE)
        @wrapped
        def count() -> Any:
            yield 1

        async with working(app):
            handle = await count.enqueue()
            await books.all_finished(1, within=10)
    [entry] = ledger(app, books, handle.id)
    assert (entry["outcome"], entry["error"]["type"]) == ("failed", "TypeError")


async def test_a_coroutine_that_returns_a_generator_fails(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job(retry=NO_MORE)
        async def count() -> Any:
            return (number for number in range(3))

        async with working(app):
            handle = await count.enqueue()
            await books.all_finished(1, within=10)
    [entry] = ledger(app, books, handle.id)
    assert (entry["outcome"], entry["error"]["type"]) == ("failed", "TypeError")


async def test_a_coroutine_that_returns_another_is_run_to_its_end(dsn: str, books: Books) -> None:
    async def charge() -> str:
        await asyncio.sleep(0)
        return "charged"

    async with App(dsn) as app:

        @app.job
        async def pay() -> Any:
            return charge()

        @app.job
        async def pay_later() -> Any:
            return asyncio.create_task(charge())

        async with working(app):
            assert await (await pay.enqueue()).result("10s") == "charged"
            assert await (await pay_later.enqueue()).result("10s") == "charged"


async def test_a_mistake_of_ours_after_the_handler_fails_the_attempt_only(
    dsn: str, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(held: object, result: object) -> None:
        raise LookupError(f"{held} came to {result}")

    async with App(dsn) as app:

        @app.job(retry=NO_MORE)
        async def behave() -> str:
            return "well"

        async with working(app):
            with monkeypatch.context() as patched:
                patched.setattr(attempt_runner, "outcome_of_result", mistaken)
                handle = await behave.enqueue()
                await books.all_finished(1, within=10)
            assert await (await behave.enqueue()).result("10s") == "well"
    [entry] = ledger(app, books, handle.id)
    assert (entry["outcome"], entry["error"]["type"]) == ("failed", "LookupError")


@pytest.mark.requirement("S2.24")
async def test_a_coroutine_that_blocks_the_loop_past_its_timeout_fails(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job(retry=NO_MORE, timeout="100ms")
        async def block() -> None:
            time.sleep(0.2)  # noqa: ASYNC251  # what this is about

        async with working(app):
            handle = await block.enqueue()
            await books.all_finished(1, within=10)
    assert ledger(app, books, handle.id)[0]["error"]["code"] == "timeout"


@pytest.mark.parametrize("retry", [Retry(), NO_MORE], ids=["attempts left", "the last attempt"])
async def test_a_run_that_its_deadline_ends_says_so(dsn: str, books: Books, retry: Retry) -> None:
    async with App(dsn) as app:

        @app.job(retry=retry)
        async def dawdle() -> None:
            await asyncio.Event().wait()

        async with working(app):
            handle = await dawdle.using(deadline="1s").enqueue()
            await books.all_finished(1, within=10)
    [entry] = ledger(app, books, handle.id)
    assert (entry["outcome"], entry["error"]["code"]) == ("expired", "deadline_expired")


@pytest.mark.requirement("S1.20", "S1.21", "S2.29")
async def test_every_attempt_is_in_the_ledger_with_type_message_traceback_and_causes(
    dsn: str, books: Books
) -> None:
    async with App(dsn) as app:

        @app.job(retry=ONCE_MORE)
        async def fall(ctx: Context) -> None:
            try:
                dict[str, int]()["inner"]
            except KeyError as error:
                raise RuntimeError(f"outer {ctx.attempt}") from error

        async with working(app):
            handle = await fall.enqueue()
            await books.all_finished(1)
    first, second = ledger(app, books, handle.id)
    assert (first["outcome"], first["attempt"], first["is_final"]) == ("retried", 1, False)
    assert (second["outcome"], second["attempt"], second["is_final"]) == ("failed", 2, True)
    for number, entry in enumerate((first, second), 1):
        error = entry["error"]
        assert (error["code"], error["type"], error["message"]) == (
            "handler_error",
            "RuntimeError",
            f"outer {number}",
        )
        assert error["causes"] == ["KeyError: 'inner'"]
        assert "in fall" in error["traceback"]


@pytest.mark.requirement("S0.23", "S0.26", "S0.27")
async def test_errors_are_bounded_and_results_too_large_are_flagged(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job(retry=NO_MORE)
        async def shout() -> None:
            raise RuntimeError("ø" * 100_000)

        @app.job
        async def boast() -> str:
            return "x" * 20_000

        @app.job
        async def confuse() -> float:
            return float("nan")

        async with working(app):
            loud, large, odd = await shout.enqueue(), await boast.enqueue(), await confuse.enqueue()
            await books.all_finished(3)
            assert await large.result("1s") is None
    assert len(ledger(app, books, loud.id)[0]["error"]["message"]) == 4_000
    assert ledger(app, books, large.id)[0]["flag"] == "result_too_large"
    assert ledger(app, books, odd.id)[0]["flag"] == "result_unencodable"
    assert ledger(app, books, odd.id)[0]["outcome"] == "succeeded"


@pytest.mark.requirement("S1.24", "S4.17", "S4.20")
async def test_a_handler_decides_by_what_it_raises(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job(retry=NO_MORE)
        async def snooze(ctx: Context) -> int:
            ctx.state["times"] = ctx.state.get("times", 0) + 1
            if ctx.state["times"] < 3:
                raise Snooze("10ms")
            return ctx.attempt

        @app.job(retry=Retry(max_attempts=2, backoff="1h"))
        async def hurry(ctx: Context) -> int:
            if ctx.attempt == 1:
                raise RetryLater("10ms", "not yet")
            return ctx.attempt

        @app.job
        async def give_up() -> None:
            raise Cancel("no use")

        @app.job
        async def fail() -> None:
            raise Fail("never")

        async with working(app):
            snoozed, hurried = await snooze.enqueue(), await hurry.enqueue()
            cancelled, failed = await give_up.enqueue(), await fail.enqueue()
            assert await snoozed.result("10s") == 1
            assert await hurried.result("10s") == 2
            await books.all_finished(4)
    assert books.outcomes(snoozed.id) == ["snoozed", "snoozed", "succeeded"]
    assert books.outcomes(hurried.id) == ["retried", "succeeded"]
    assert books.outcomes(cancelled.id) == ["cancelled"]
    assert books.outcomes(failed.id) == ["failed"]
    assert books.state(failed.id) == "failed"


@pytest.mark.requirement("S2.24")
async def test_a_timeout_ends_a_coroutine_and_its_job_is_tried_again(dsn: str, books: Books) -> None:
    async with App(dsn) as app:

        @app.job(retry=ONCE_MORE, timeout="300ms")
        async def dawdle(ctx: Context) -> int:
            if ctx.attempt == 1:
                await asyncio.Event().wait()
            return ctx.attempt

        async with working(app):
            handle = await dawdle.enqueue()
            assert await handle.result("10s") == 2
    first, _ = ledger(app, books, handle.id)
    assert first["outcome"] == "retried"
    assert first["error"]["code"] == "timeout"


@pytest.mark.requirement("S2.24")
async def test_a_thread_past_its_timeout_sees_it_and_keeps_its_slot_until_it_ends(
    dsn: str, books: Books
) -> None:
    told, may_end = threading.Event(), threading.Event()
    async with App(dsn) as app:

        @app.job(retry=NO_MORE, timeout="300ms")
        def ponder(ctx: Context) -> None:
            deadline = time.monotonic() + 20
            while not ctx.is_cancelled and time.monotonic() < deadline:
                time.sleep(0.01)
            told.set()
            may_end.wait(20)

        @app.job
        async def follow() -> None:
            pass

        async with working(app, slots=1):
            handle = await ponder.enqueue()
            await until(told.is_set, "the thread is told")
            follower = await follow.enqueue()
            waited = asyncio.create_task(follower.result("20s"))
            await asyncio.wait([waited], timeout=0.5)
            assert (books.state(handle.id), books.state(follower.id)) == ("running", "ready")
            may_end.set()
            await waited
            await books.all_finished(2)
    assert ledger(app, books, handle.id)[0]["error"]["code"] == "timeout"
