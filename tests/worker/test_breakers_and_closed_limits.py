"""Breakers, limits that a handler closes, and what it spends of a rate: as a running worker does it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Breaker, CloseLimit, Context, Limit, Rate, Retry
from holdfast.domain.duration import LONGEST
from holdfast.errors import InvalidInput
from support.waiting import until


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app


@pytest.mark.parametrize("is_thread", [False, True], ids=["coroutine", "thread"])
async def test_a_breaker_opens_after_failures_in_a_row_and_an_operator_opens_it_again(
    app: App, is_thread: bool
) -> None:
    stripe = app.limit("stripe", total=1, breaker=Breaker(failures=2, pause="1h"))
    runs: list[bool] = []

    def attempt(fails: bool) -> None:
        runs.append(fails)
        if fails:
            raise ConnectionError("no answer")

    if is_thread:

        @app.job(limit=stripe, retry=Retry(max_attempts=1))
        def charge(fails: bool) -> None:
            attempt(fails)

    else:

        @app.job(limit=stripe, retry=Retry(max_attempts=1))
        async def charge(fails: bool) -> None:
            attempt(fails)

    for fails in (True, False, True, True):
        await charge.enqueue(fails)
    last = await charge.enqueue(False)
    async with app.worker():
        await until(lambda: len(runs) == 4)
        await until(lambda: _is_stopped(app, "stripe"))
        assert (await last.status()).state == "gated"
        assert await app.limits.open("stripe") is False
        await last.result("30s")
    assert runs == [True, False, True, True, False]


async def _is_stopped(app: App, name: str) -> bool:
    [found] = [each for each in await app.limits.list() if each.name == name]
    return found.open_for is not None


async def test_errors_that_a_breaker_does_not_name_do_not_open_it(app: App) -> None:
    breaker = Breaker(failures=1, pause="1h", on=(ConnectionError,))
    stripe = app.limit("stripe", total=1, breaker=breaker)

    @app.job(limit=stripe, retry=Retry(max_attempts=1))
    async def charge(fails: bool) -> int:
        if fails:
            raise ValueError("a bad card")
        return 7

    for _ in range(3):
        await charge.enqueue(True)
    last = await charge.enqueue(False)
    async with app.worker():
        assert await last.result("30s") == 7


async def test_a_handler_closes_its_key_and_runs_again_without_losing_an_attempt(app: App) -> None:
    stripe = app.limit("stripe", per_key=1)
    seen: list[tuple[str, int]] = []

    @app.job(limit=stripe.by("account"))
    async def charge(ctx: Context, account: str) -> None:
        seen.append((account, ctx.attempt))
        if account == "busy" and len(seen) == 1:
            raise CloseLimit(stripe, retry_after="1h")

    busy = await charge.enqueue("busy")
    async with app.worker():
        await until(lambda: _is(app, busy.id, "scheduled"))
        await (await charge.enqueue("other")).result("30s")
        second = await charge.enqueue("busy")
        [key] = (await app.limits.show("stripe", key="busy")).keys
        assert key.is_closed
        assert key.closed_reason == f"the handler of job {busy.id} asked for it"
        [found] = await app.limits.list()
        assert found.stopped_keys == 1
        await until(lambda: _is(app, second.id, "gated"))
        assert await app.limits.open("stripe", key="busy") is True
        await second.result("30s")
        await app.jobs.reschedule(busy.id, "0s")
        await busy.result("30s")
    assert seen == [("busy", 1), ("other", 1), ("busy", 1), ("busy", 1)]
    assert (await app.fsck()).is_sound


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(30, 30), (0.5, 0.5), ("30", 30), (" 1.5 ", 1.5), ("30s", 30), (timedelta(minutes=1), 60), (0, 0)],
)
def test_how_long_a_limit_is_closed_is_a_length_or_a_number_of_seconds(given: Any, seconds: float) -> None:
    assert CloseLimit("stripe", retry_after=given).retry_after == timedelta(seconds=seconds)


def test_a_limit_is_closed_for_a_hundred_years_at_most() -> None:
    assert CloseLimit("stripe", retry_after=10**300).retry_after == LONGEST


@pytest.mark.parametrize(
    "given",
    [None, True, -1, float("nan"), float("inf"), "9" * 400, "soon", "Fri, 31 Dec 1999 23:59:59 GMT", []],
)
def test_anything_else_is_refused_with_what_to_give(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"retry_after .*such as"):
        CloseLimit("stripe", retry_after=given)


async def test_a_breaker_that_an_operator_has_set_counts_every_failure(app: App) -> None:
    stripe = app.limit("stripe", total=1)

    @app.job(limit=stripe, retry=Retry(max_attempts=1))
    async def charge(number: int) -> None:
        raise ValueError("a bad card")

    async with app.worker():
        await app.limits.set("stripe", breaker=Breaker(failures=2, pause="1h"))
        await app.enqueue_many(charge.call(n) for n in range(3))

        async def is_stopped() -> bool:
            return (await app.limits.show("stripe")).limit.open_for is not None

        await until(is_stopped)
        assert (await app.limits.show("stripe")).limit.waiting == 1


async def test_a_handler_that_closes_an_unknown_limit_waits_all_the_same(app: App) -> None:
    @app.job(limit=Limit(total=1))
    async def charge() -> None:
        raise CloseLimit("strype", retry_after="1h")

    job = await charge.enqueue()
    async with app.worker():
        await until(lambda: _is(app, job.id, "scheduled"))
    assert (await app.jobs.show(job.id)).summary.attempt == 0


async def _is(app: App, job: int, state: str) -> bool:
    return (await app.jobs.show(job)).summary.state == state


async def test_a_closed_key_opens_by_itself_at_its_time(app: App) -> None:
    stripe = app.limit("stripe", per_key=1)
    calls: list[float] = []

    @app.job(limit=stripe.by("account"))
    async def charge(account: str) -> None:
        calls.append(asyncio.get_running_loop().time())
        if len(calls) == 1:
            raise CloseLimit(stripe, retry_after="300ms")

    async with app.worker():
        await (await charge.enqueue("acme")).result("30s")
    assert len(calls) == 2
    assert calls[1] - calls[0] >= 0.3


async def test_what_a_run_spends_of_a_rate_keeps_others_waiting(app: App, dsn: str) -> None:
    tokens = app.limit("tokens", rate=Rate(10, per="1h", burst=5))

    @app.job(limit=tokens)
    async def ask(ctx: Context, cost: int) -> None:
        ctx.spend(tokens, cost)

    async with app.worker():
        await (await ask.enqueue(100)).result("30s")
        await until(lambda: _is_owing(dsn))
        second = await ask.enqueue(1)
        await until(lambda: _is(app, second.id, "gated"))
        assert (await app.limits.show("tokens")).limit.held == 0


async def _is_owing(dsn: str) -> bool:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        question = "select 1 from holdfast.limit_state where spent_until > now() + interval '5 hours'"
        return bool(await (await connection.execute(question)).fetchall())


async def test_spending_asks_for_a_limit_and_a_whole_number(app: App) -> None:
    problems: list[str] = []

    @app.job(limit=Limit(rate=Rate(10, per="1s", burst=5)))
    async def ask(ctx: Context) -> None:
        for limit, units in (("", 1), ("tokens", 0), ("tokens", 1.5)):
            try:
                ctx.spend(limit, units)  # type: ignore[arg-type]
            except InvalidInput as problem:
                problems.append(str(problem))

    async with app.worker():
        await (await ask.enqueue()).result("30s")
    assert [problem.split(":")[0] for problem in problems] == ["'' is no limit", "units is 0", "units is 1.5"]
