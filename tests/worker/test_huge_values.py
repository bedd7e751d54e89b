"""Huge results, errors and states are cut or dropped with a flag, and harm no other job."""

from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Fail, Job, Retry
from holdfast.codec import result as codec
from holdfast.domain.json_text import is_surely_longer
from holdfast.storage.job_lookup import find, history
from holdfast.worker.failure_from_error import from_error

HUGE = 10 * 1024 * 1024
TEXT = "x" * HUGE


class Recursive(Exception):
    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return str(self)


def chained(length: int) -> Exception:
    error: Exception = ValueError("the first")
    for number in range(length):
        cause, error = error, KeyError(number)
        error.__cause__ = cause
    return error


def nested(depth: int) -> BaseException:
    error: Exception = ValueError("innermost")
    for _ in range(depth):
        error = ExceptionGroup("outer", [error])
    return error


RESULTS: dict[str, Any] = {
    "text": TEXT,
    "in a dict": {"file": {"content": TEXT}},
    "many": [0] * HUGE,
    "bytes": TEXT.encode(),
    "deep": [[[[[TEXT]]]]],
}


@pytest.mark.parametrize("what", RESULTS)
@pytest.mark.parametrize("style", ["coroutine", "thread"])
async def test_a_huge_result_is_dropped_and_flagged(dsn: str, what: str, style: str) -> None:
    async with App(dsn) as app:
        if style == "coroutine":

            @app.job(name="work")
            async def work() -> Any:
                return RESULTS[what]

        else:

            @app.job(name="work")
            def work() -> Any:
                return RESULTS[what]

        @app.job
        async def small() -> int:
            return 1

        async with app.worker():
            handle, other = await work.enqueue(), await small.enqueue()
            assert await other.result(timeout="30s") == 1
            assert await handle.result(timeout="30s") is None
        [found] = await app.run(find(app.schema, handle.id))
        assert (found.state, found.flag, found.result) == ("succeeded", "result_too_large", None)


@pytest.mark.parametrize("what", ["text", "in a dict", "many", "bytes"])
def test_what_is_surely_too_large_is_not_even_encoded(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    class Refusing:
        @staticmethod
        def encode(value: object) -> bytes:
            raise AssertionError("it was encoded")

    monkeypatch.setattr(codec, "encoder", Refusing)
    assert codec.success(RESULTS[what], None, limit=1000).flag == "result_too_large"


@pytest.mark.parametrize(
    "value", ["x" * 98, ["x" * 40, "y" * 40], {"": 1}, [0] * 50, [[]] * 33, ([""],), {"a": {"b": ["c"]}}]
)
def test_what_just_fits_is_never_taken_for_too_large(value: Any) -> None:
    length = len(codec.encoder.encode(value))
    assert not is_surely_longer(value, length)


ERRORS: dict[str, Any] = {
    "message": lambda: ValueError(TEXT),
    "arguments": lambda: ValueError(TEXT, TEXT),
    "reason": lambda: Fail(TEXT),
    "recursive": Recursive,
    "chain": lambda: chained(5_000),
    "groups": lambda: nested(3_000),
    "members": lambda: ExceptionGroup("many", [ValueError(TEXT)] * 20_000),
}


async def check_fails_alone(app: App, work: Job[[], None]) -> int:
    """The job fails, and one that runs beside it does not. Returns the id of the job that failed."""

    @app.job
    async def small() -> int:
        return 1

    async with app.worker():
        handle, other = await work.enqueue(), await small.enqueue()
        assert await other.result(timeout="30s") == 1
        with pytest.raises(Exception, match="failed"):
            await handle.result(timeout="30s")
    return handle.id


@pytest.mark.parametrize("what", ERRORS)
async def test_a_huge_error_is_cut_and_its_job_fails_alone(dsn: str, what: str) -> None:
    async with App(dsn) as app:

        @app.job(retry=Retry(max_attempts=1))
        async def work() -> None:
            error = ERRORS[what]()
            raise error

        [entry] = await app.run(history(app.schema, await check_fails_alone(app, work)))
        assert entry.outcome == "failed"
        assert 20 < len(entry.error or "") < 100_000


def test_a_long_chain_keeps_the_last_error_with_its_own_traceback() -> None:
    try:
        raise chained(5_000)
    except KeyError as error:
        failure = from_error(error)
    assert (failure.message, len(failure.causes)) == ("4999", 10)
    assert "KeyError: 4999" in (failure.traceback or "")
    assert "raise chained" in (failure.traceback or "")


@pytest.mark.parametrize("what", ["progress", "state"])
async def test_huge_progress_and_state_are_refused_to_the_handler_alone(dsn: str, what: str) -> None:
    async with App(dsn) as app:

        @app.job(retry=Retry(max_attempts=1))
        async def work(ctx: Context) -> None:
            if what == "progress":
                ctx.progress(note=TEXT)
            ctx.state["file"] = TEXT
            raise ValueError("again")

        await check_fails_alone(app, work)


async def test_a_worker_says_what_it_drops_from_ready(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    async with App(dsn) as app:

        @app.job(name="work")
        async def work() -> int:
            return 1

        async with app.worker():
            first = await work.enqueue()
            assert await first.result(timeout="30s") == 1
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(
                    "insert into holdfast.ready (job, ready_at, attempt, priority, segment, queue, kind)"
                    " select %s, now(), 0, 5, current, 'default', 'work' from holdfast.ring",
                    [first.id],
                )
            second = await work.enqueue()
            assert await second.result(timeout="30s") == 1
    assert "dropped 1 of queue default from ready without running" in caplog.text
