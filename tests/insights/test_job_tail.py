"""`app.jobs.tail`: what happens to jobs, told once and in order."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, Handle, Retry
from holdfast.errors import InvalidFilter, InvalidInput, JobNotFound
from holdfast.insights.tail_records import RunEnded, RunLogged, RunStarted, TailEvent, TailMark
from support.waiting import until

library = logging.getLogger("some.library")


@pytest.fixture(autouse=True)
def informed() -> Iterator[None]:
    before = logging.root.level
    logging.root.setLevel(logging.INFO)
    yield
    logging.root.setLevel(before)


@pytest.fixture
async def keeping(dsn: str) -> AsyncIterator[App]:
    async with App(dsn, keep_logs="always") as app:
        yield app


class Follower:
    """Looks again and again, as the command does."""

    def __init__(self, app: App, text: str) -> None:
        self._app = app
        self._text = text
        self._mark: TailMark | None = None
        self.events: list[TailEvent] = []
        self.is_over = False

    async def look(self) -> None:
        page = await self._app.jobs.tail(self._text, after=self._mark)
        self._mark = page.next
        self.events += page.events
        self.is_over = page.is_over

    async def until(self, *told: tuple[Any, ...]) -> None:
        """Until it has been told this and nothing else."""

        async def is_so() -> bool:
            await self.look()
            return len(self.events) >= len(told)

        await until(is_so, lambda: f"{self.told} is {told}")
        await self.look()
        assert self.told == list(told)

    @property
    def told(self) -> list[tuple[Any, ...]]:
        return [brief(event) for event in self.events]


def brief(event: TailEvent) -> tuple[Any, ...]:
    match event:
        case RunStarted():
            return ("started", event.job.id, event.attempt)
        case RunLogged():
            return ("log", event.job.id, event.line.message)
        case RunEnded():
            return (event.outcome, event.job.id, event.attempt)


async def test_runs_that_start_log_and_end_are_told_once(keeping: App) -> None:
    may_end = asyncio.Event()

    @keeping.job(retry=Retry(max_attempts=2, backoff="0s"))
    async def work(ctx: Context) -> None:
        ctx.log.info("begun")
        await may_end.wait()
        if ctx.attempt == 1:
            raise ValueError("not yet")
        library.info("done")

    follower = Follower(keeping, "kind:work")
    await follower.look()
    async with keeping.worker():
        job = (await work.enqueue()).id
        await follower.until(("started", job, 1), ("log", job, "begun"))
        may_end.set()
        everything = (
            ("started", job, 1),
            ("log", job, "begun"),
            ("retried", job, 1),
            ("started", job, 2),
            ("log", job, "begun"),
            ("log", job, "done"),
            ("succeeded", job, 2),
        )
        await follower.until(*everything)
        retried = next(event for event in follower.events if isinstance(event, RunEnded))
        assert retried.error is not None
        assert str(retried.error) == "ValueError: not yet"
        assert not retried.is_final
        assert retried.took is not None
        assert retried.took > timedelta()

        async def is_forgotten() -> bool:
            await follower.look()
            return (await keeping.jobs.tail("kind:work")).now > retried.time + timedelta(seconds=7)

        await until(is_forgotten)
    assert follower.told == list(everything), "and never again"


async def test_runs_that_are_shorter_than_a_look_are_told(keeping: App) -> None:
    @keeping.job
    async def short(number: int) -> None:
        library.info("%d", number)

    @keeping.job(keep="5m")
    async def kept_for_another_time() -> None: ...

    follower = Follower(keeping, "")
    async with keeping.worker():

        async def is_declared() -> bool:
            return len(await keeping.kinds.list()) == 2

        await until(is_declared)
        await follower.look()
        waiting = [(await short.enqueue(number)).id for number in range(3)]
        other = (await kept_for_another_time.enqueue()).id
        await asyncio.gather(*(keeping.handle(job).result("60s") for job in [*waiting, other]))

        async def all_ended() -> bool:
            await follower.look()
            return sum(isinstance(event, RunEnded) for event in follower.events) >= 4

        await until(all_ended, lambda: str(follower.told))
    for number, job in enumerate(waiting):
        assert [told for told in follower.told if told[1] == job] == [
            ("started", job, 1),
            ("log", job, str(number)),
            ("succeeded", job, 1),
        ]


async def test_what_ended_before_is_no_news_and_what_runs_is(keeping: App) -> None:
    may_end = asyncio.Event()

    @keeping.job
    async def quick() -> None:
        library.info("before")

    @keeping.job
    async def slow() -> None:
        await may_end.wait()

    async with keeping.worker():
        slow_job = (await slow.enqueue()).id
        await (await quick.enqueue()).result("60s")
        follower = Follower(keeping, "")
        await until(lambda: _is_running(keeping, slow_job))
        await follower.look()
        assert follower.told == [("started", slow_job, 1)]
        may_end.set()
        await follower.until(("started", slow_job, 1), ("succeeded", slow_job, 1))


async def _is_running(app: App, job: int) -> bool:
    return (await app.jobs.show(job)).summary.state == "running"


async def test_only_what_matches_is_told(keeping: App) -> None:
    @keeping.job(queue="mail", retry=Retry(max_attempts=1))
    async def send(number: int) -> None:
        if number < 0:
            raise ValueError("no")

    @keeping.job(queue="other")
    async def work() -> None: ...

    by_queue, by_state = Follower(keeping, "queue:other"), Follower(keeping, "state:failed")
    await by_queue.look()
    await by_state.look()
    async with keeping.worker():
        handles: list[Handle[None]] = [await send.enqueue(1), await send.enqueue(-1), await work.enqueue()]
        await by_queue.until(("started", handles[2].id, 1), ("succeeded", handles[2].id, 1))
        await by_state.until(("started", handles[1].id, 1), ("failed", handles[1].id, 1))


async def test_a_job_is_followed_from_its_beginning_to_its_end(keeping: App) -> None:
    @keeping.job(retry=Retry(max_attempts=1))
    async def work() -> None:
        library.info("line")
        raise ValueError("no")

    async with keeping.worker():
        handle = await work.enqueue()
        follower = Follower(keeping, f"id:{handle.id}")

        async def is_over() -> bool:
            await follower.look()
            return follower.is_over

        await until(is_over)
        assert follower.told == [
            ("started", handle.id, 1),
            ("log", handle.id, "line"),
            ("failed", handle.id, 1),
        ]
        late = Follower(keeping, f"id:{handle.id}")
        await late.look()
        assert late.told == follower.told
        await keeping.jobs.retry(handle.id)
        await until(is_over)
    assert [told[0] for told in follower.told] == ["started", "log", "failed"] * 2


async def test_a_job_that_ends_without_a_run_is_told(keeping: App) -> None:
    @keeping.job
    async def work() -> None: ...

    job = (await work.using(delay="1h").enqueue()).id
    follower = Follower(keeping, f"id:{job}")
    await follower.look()
    assert follower.told == []
    await keeping.jobs.cancel(job)
    await follower.until(("cancelled", job, 0))
    [event] = follower.events
    assert isinstance(event, RunEnded)
    assert event.took is None


async def test_more_than_can_be_told_is_said(keeping: App, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.insights.job_tail.MOST", 3)

    @keeping.job
    async def work() -> None: ...

    mark = (await keeping.jobs.tail("kind:work")).next
    handles = [await work.enqueue() for _ in range(5)]
    async with keeping.worker():
        for handle in handles:
            await handle.result("60s")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "update holdfast.ledger set finished_at = now(), keep_until = now() + interval '1d'"
        )
    page = await keeping.jobs.tail("kind:work", after=mark)
    assert page.is_cut
    assert not (await keeping.jobs.tail("kind:none", after=mark)).events


async def test_wrong_questions_get_an_answer(keeping: App) -> None:
    with pytest.raises(JobNotFound):
        await keeping.jobs.tail("id:99")
    with pytest.raises(InvalidFilter):
        await keeping.jobs.tail("stat:failed")
    with pytest.raises(InvalidInput, match="after is 5"):
        await keeping.jobs.tail("", after=5)  # type: ignore[arg-type]  # as an untyped caller may
