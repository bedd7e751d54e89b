"""A handler's Retry, Snooze, Fail or Cancel in an odd form is still understood, and never ends the worker."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Cancel, Fail, Flow, Retry, RetryLater, Snooze
from holdfast.errors import JobEnded
from support.waiting import until


class OutOfStock(Fail):
    """A subclass that forgets to call its base's __init__."""

    def __init__(self, article: str) -> None:
        self.article = article


class Later(Snooze):
    def __init__(self, *delay: Any) -> None:
        if delay:
            self.delay = delay[0]


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("not even this")


ERROR: Any = ValueError("sold out")
NUMBER: Any = 5
NOTHING: Any = None
UNSHOWABLE: Any = Unshowable()

ODD: dict[str, tuple[Callable[[], Exception], str, str]] = {
    "an error as the reason to fail": (lambda: Fail(ERROR), "failed", "ValueError: sold out"),
    "a number as the reason to fail": (lambda: Fail(NUMBER), "failed", "5"),
    "no reason to cancel": (lambda: Cancel(NOTHING), "cancelled", "None"),
    "an error as the reason to retry": (lambda: RetryLater("1s", ERROR), "failed", "sold out"),
    "a reason that cannot be shown": (lambda: Fail(UNSHOWABLE), "failed", "(Unshowable could not be shown)"),
    "no reason of its base's": (lambda: OutOfStock("tea"), "failed", "tea"),
    "no delay of its base's": (Later, "failed", "the delay of Later is None: write a length of time"),
    "a number as a delay": (lambda: Later(NUMBER), "failed", "the delay of Later is 5: write a length"),
}


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_wish_ends_its_job_and_no_worker(name: str, dsn: str) -> None:
    asked, state, message = ODD[name]
    app = App(dsn)

    @app.job(retry=Retry(max_attempts=1))
    async def ask(is_odd: bool) -> str:
        if is_odd:
            raise asked()
        return "fine"

    async with app, app.worker():
        odd = await ask.enqueue(is_odd=True)
        with pytest.raises(JobEnded) as ended:
            await odd.result("20s")
        assert ended.value.state == state
        assert message in str(ended.value.error["message"])
        assert await (await ask.enqueue(is_odd=False)).result("20s") == "fine"


@pytest.mark.parametrize("name", [name for name, (_, state, _) in ODD.items() if state == "failed"])
async def test_an_odd_wish_of_a_step_ends_its_flow_and_no_worker(name: str, dsn: str) -> None:
    asked, state, message = ODD[name]
    app = App(dsn)

    @app.flow(retry=Retry(max_attempts=1))
    async def pack(flow: Flow) -> None:
        async def ask() -> None:
            raise asked()

        await flow.step("ask", ask, retry=Retry(max_attempts=1))

    async with app, app.worker():
        with pytest.raises(JobEnded) as ended:
            await (await pack.enqueue()).result("20s")
        assert ended.value.state == state
        assert message in str(ended.value.error["message"])


@pytest.mark.parametrize("asked", [Snooze(timedelta.max), RetryLater(timedelta.max)])
async def test_a_step_that_asks_to_wait_for_ever_waits_a_hundred_years(asked: Exception, dsn: str) -> None:
    app = App(dsn)

    @app.flow
    async def pack(flow: Flow) -> None:
        async def ask() -> None:
            raise asked

        await flow.step("ask", ask)

    async with app, app.worker():
        handle = await pack.enqueue()

        async def is_put_off() -> bool:
            return (await handle.status()).state in ("scheduled", "waiting", "failed")

        await until(is_put_off)
        assert (await handle.status()).state in ("scheduled", "waiting")
