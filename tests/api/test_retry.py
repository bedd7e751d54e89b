"""`Retry`: how often, after how long, and for which errors a job is tried again."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Context, Handle, Retry, RetryLater, Snooze, exponential, polynomial
from holdfast.errors import InvalidInput, JobEnded

HOUR = timedelta(hours=1)


class Flaky(Exception):
    pass


class FlakyToday(Flaky):
    pass


async def fails(app: App, retry: Retry | None, *, times: int, error: Exception | None = None) -> Handle[None]:
    """A job that has failed this many times, after each of which its backoff passed."""
    failures = asyncio.Semaphore(0)

    async def work() -> None:
        raise error or Flaky("again")

    job = app.job(retry=retry, on_failure=lambda _, __: failures.release())(work)
    async with app.worker():
        handle = await job.enqueue()
        for _ in range(times):
            await asyncio.wait_for(failures.acquire(), 60)
    return handle


async def waits(handle: Handle[None]) -> timedelta:
    """From the first moment to the next attempt, with the few seconds that the attempts took."""
    status = await handle.status()
    assert status.state == "scheduled"
    assert status.run_at is not None
    return status.run_at - status.created_at


@pytest.mark.requirement("S2.29")
@pytest.mark.parametrize(
    "backoff",
    [
        "1h",
        HOUR,
        ["1h", "9h"],
        (HOUR,),
        exponential("1h", jitter=0),
        polynomial(0, floor=timedelta(seconds=3599), spread="0s"),
        exponential("30m", cap="1h", factor=1, jitter=1),
        lambda attempt, error: "1h" if (attempt, str(error)) == (1, "again") else "9h",
        lambda attempt, error: HOUR,
    ],
)
async def test_every_form_of_backoff_is_waited_for(app: App, backoff: Any) -> None:
    waited = await waits(await fails(app, Retry(backoff=backoff), times=1))
    assert timedelta() < waited < 2 * HOUR
    if getattr(backoff, "jitter", 0) == 0:
        assert waited >= HOUR


async def test_without_a_backoff_the_first_wait_is_about_two_seconds(app: App) -> None:
    handle = await fails(app, None, times=1)
    assert timedelta(seconds=1.5) <= await waits(handle) < timedelta(minutes=1)


@pytest.mark.requirement("S2.29")
@pytest.mark.parametrize(
    "backoff",
    [
        ["1ms", "1h"],
        exponential("1ms", factor=3_600_000, jitter=0),
        lambda attempt, _: ["1ms", "1h"][attempt - 1],
    ],
)
async def test_a_backoff_grows_with_the_attempts(app: App, backoff: Any) -> None:
    handle = await fails(app, Retry(backoff=backoff), times=2)
    assert HOUR <= await waits(handle) < 2 * HOUR
    assert (await handle.status()).attempt == 2


@pytest.mark.requirement("S2.14", "S1.18")
async def test_max_attempts_includes_the_first(app: App) -> None:
    attempts = []

    @app.job(retry=Retry(max_attempts=3, backoff="0s"))
    async def work(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise Flaky("again")

    async with app.worker():
        handle = await work.enqueue()
        with pytest.raises(JobEnded, match="Flaky: again"):
            await handle.result(timeout="60s")
    assert attempts == [1, 2, 3]


async def test_a_job_that_succeeds_at_last_has_succeeded(app: App) -> None:
    @app.job(retry=Retry(max_attempts=3, backoff="0s"))
    def work(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise Flaky("again")
        return ctx.attempt

    async with app.worker():
        assert await (await work.enqueue()).result(timeout="60s") == 3


@pytest.mark.parametrize(
    ("on", "is_tried_again"),
    [
        (Flaky, True),
        (FlakyToday, True),
        (Exception, True),
        ((ValueError, Flaky), True),
        (ValueError, False),
        ((ValueError, KeyError), False),
        (lambda error: isinstance(error, Flaky), True),
        (lambda error: "never" in str(error), False),
    ],
)
async def test_on_decides_which_errors_are_tried_again(app: App, on: Any, is_tried_again: bool) -> None:
    retry = Retry(on=on, backoff="1h")
    status = await (await fails(app, retry, times=1, error=FlakyToday("once"))).status()
    assert (status.state, status.attempt) == ("scheduled" if is_tried_again else "failed", 1)


@pytest.mark.parametrize("policy", ["on", "backoff"])
async def test_a_policy_that_fails_itself_is_a_failed_attempt_like_any_other(app: App, policy: str) -> None:
    def broken(*_: object) -> Any:
        raise KeyError("the policy's own mistake")

    options: dict[str, Any] = {policy: broken, "max_attempts": 1}
    handle = await fails(app, Retry(**options), times=1)
    error = (await handle.status()).error
    assert error is not None
    assert "own mistake" in error["message"]
    assert "Flaky: again" in error["causes"][0]


async def test_a_job_asked_for_with_a_backoff_has_it_before_its_kinds_function(app: App) -> None:
    failed = asyncio.Event()

    @app.job(retry=Retry(backoff=lambda *_: "9h"), on_failure=lambda *_: failed.set())
    async def work() -> None:
        raise Flaky("again")

    async with app.worker():
        handle = await work.using(retry=Retry(backoff="1h")).enqueue()
        await asyncio.wait_for(failed.wait(), 60)
    assert HOUR <= await waits(handle) < 2 * HOUR


@pytest.mark.parametrize(
    ("asked", "attempt"),
    [(RetryLater("1h"), 1), (RetryLater(HOUR), 1), (Snooze("1h"), 0), (Snooze(HOUR), 0)],
)
async def test_a_handler_chooses_its_own_delay(app: App, asked: Exception, attempt: int) -> None:
    begun = asyncio.Event()

    @app.job(retry=Retry(backoff="9h", on=ValueError))
    async def work() -> None:
        begun.set()
        raise asked

    async with app.worker():
        handle = await work.enqueue()
        await asyncio.wait_for(begun.wait(), 60)
    assert HOUR <= await waits(handle) < 2 * HOUR
    assert (await handle.status()).attempt == attempt  # a snooze does not count


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": 40_000},
        {"max_attempts": True},
        {"max_attempts": "5"},
        {"backoff": 10},
        {"backoff": None},
        {"backoff": []},
        {"backoff": ["1s", 5]},
        {"backoff": "soon"},
        {"backoff": timedelta(seconds=-1)},
        {"on": "ValueError"},
        {"on": [ValueError]},
        {"on": ()},
        {"on": (ValueError, "KeyError")},
        {"on": int},
        {"on": ValueError("once")},
    ],
)
def test_a_retry_that_makes_no_sense_is_refused_where_it_is_written(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        Retry(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"base": "0s"},
        {"base": timedelta(seconds=-1)},
        {"base": 2},
        {"base": "1h", "cap": "1m"},
        {"cap": 5},
        {"factor": 0.5},
        {"factor": float("nan")},
        {"factor": float("inf")},
        {"factor": "2"},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"jitter": None},
    ],
)
def test_an_exponential_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options))):
        exponential(**options)


def test_exponential_has_the_defaults_of_the_default() -> None:
    assert Retry(backoff=exponential()) == Retry()
    assert Retry() == Retry(max_attempts=20, backoff=exponential("2s", factor=2, cap="24h", jitter=0.25))


@pytest.mark.parametrize(
    ("power", "options", "told"),
    [
        (-1, {}, "power is -1: give a number from 0 to 10"),
        (11, {}, "power is 11"),
        ("4", {}, "power is '4': give a number"),
        (4, {"floor": "-1s"}, "floor '-1s' is not a length of time"),
        (4, {"spread": -timedelta(seconds=1)}, "is negative"),
        (4, {"spread": 30}, "spread"),
    ],
)
def test_a_polynomial_backoff_that_cannot_be_meant_is_refused(
    power: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        polynomial(power, **options)
