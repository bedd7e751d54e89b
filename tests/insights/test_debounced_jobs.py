"""What operators see of debounced and throttled jobs."""

import asyncio
from datetime import timedelta

import pytest

from holdfast import App, Job, Retry
from support.waiting import until


@pytest.fixture
def sync(app: App) -> Job[[int, int], None]:
    @app.job(unique=["user"], debounce="1h", max_wait="2h")
    async def sync(user: int, version: int) -> None: ...

    return sync


async def test_a_job_that_is_put_off_says_until_when(app: App, sync: Job[[int, int], None]) -> None:
    job = (await sync.enqueue(1, 1)).id
    await sync.enqueue(1, 2)
    found = await app.jobs.explain(job)
    assert found.reason == "debounced"
    assert found.sentence.startswith("It is debounced, for the first time ")
    assert "and is to run at " in found.sentence
    assert " puts it off, but to " in found.sentence
    assert found.sentence.endswith((" at the latest (in 2h).", " at the latest (in 1h 59m)."))
    assert found.advice == f"Run it now with: holdfast jobs reschedule {job} 0s"
    detail = await app.jobs.show(job)
    assert detail.debounced_since is not None
    assert detail.debounced_until is not None
    assert detail.debounced_until - detail.debounced_since == timedelta(hours=2)
    assert (detail.unique_until, detail.args) == (None, {"user": 1, "version": 2})


async def test_without_max_wait_it_names_no_last_moment(app: App) -> None:
    @app.job(unique=True, debounce="1h")
    async def tidy() -> None: ...

    found = await app.jobs.explain(await tidy.enqueue())
    assert found.sentence.endswith("Another enqueue with its unique key puts it off.")


async def test_a_job_whose_key_was_taken_over_says_which_job_has_it(app: App) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    @app.job(unique=["user"], debounce="1ms", retry=Retry(backoff="1h"))
    async def sync(user: int, version: int) -> None:
        began.set()
        await may_end.wait()
        raise ValueError("no")

    async with app.worker():
        old = await sync.enqueue(1, 1)
        await began.wait()
        new = await sync.using(debounce="1h").enqueue(1, 2)
        running = await app.jobs.explain(old)
        assert running.reason == "running"
        assert f"Job {new.id} has taken over its unique key" in running.sentence
        may_end.set()

        async def is_superseded() -> bool:
            return (await app.jobs.explain(old)).reason == "superseded"

        await until(is_superseded)
        assert f"Job {new.id} took over its unique key" in (await app.jobs.explain(old)).sentence
        await app.jobs.reschedule(old, "0s")

        async def is_over() -> bool:
            return (await old.status()).is_final

        await until(is_over)
    status = await old.status()
    assert status.error is not None
    assert (status.state, status.error["code"]) == ("cancelled", "superseded")
    assert f"job {new.id} took over its unique key" in status.error["message"]


async def test_a_job_that_keeps_its_key_says_until_when(app: App) -> None:
    @app.job(unique=["user"], unique_for="1h")
    async def remind(user: int) -> None: ...

    async with app.worker():
        once = await remind.enqueue(1)
        await once.result(timeout="60s")
    found = await app.jobs.explain(once)
    assert "It keeps its unique key until " in found.sentence
    detail = await app.jobs.show(once.id)
    assert detail.unique_until is not None
