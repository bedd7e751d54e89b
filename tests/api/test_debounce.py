"""`debounce`, `max_wait`, `unique_for`: options of a kind and of one job, and what a worker makes of them."""

import asyncio
from typing import Any

import psycopg
import pytest

from api.observer import Observer
from holdfast import OWN_TRANSACTION, App, Context, Done, Flow, Machine, Retry, Step
from holdfast.errors import DuplicateJob, InvalidInput, JobEnded
from support.blocking_in_a_loop import both_colours
from support.waiting import until

NOWHERE = "postgresql://nowhere/none"

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"debounce": "5s"}, "debounce needs unique="),
    ({"debounce": "5s", "unique": False}, "debounce needs unique="),
    ({"unique_for": "5s"}, "unique_for needs unique="),
    ({"unique": True, "max_wait": "5s"}, "max_wait needs debounce="),
    ({"unique": True, "debounce": "5s", "max_wait": "4s"}, "max_wait is 4s, less than debounce, 5s"),
    ({"unique": True, "debounce": "5s", "unique_for": "1m"}, "not both"),
    ({"unique": True, "debounce": "5s", "on_conflict": "replace"}, "leave it out, debounce says"),
    ({"unique": True, "debounce": "5s", "on_conflict": "existing"}, "leave it out, debounce says"),
    ({"unique": True, "unique_for": "5s", "on_conflict": "replace"}, "keeps what came first"),
    ({"unique": True, "debounce": "0s"}, "debounce is 0s: it must be above 0"),
    ({"unique": True, "debounce": 5}, "debounce is 5: write a length of time"),
    ({"unique": True, "debounce": "5s", "max_wait": "40000d"}, "max_wait is .* a hundred years"),
    ({"unique": True, "unique_for": "-1s"}, "unique_for"),
    ({"unique": True, "on_conflict": "ignore"}, 'give "existing", "raise" or "replace"'),
    ({"on_conflict": "raise"}, "it needs unique="),
    ({"unique": ["usr"]}, "unique names 'usr', which is not a parameter of mail: it takes user"),
    ({"unique": []}, r"unique is \[\]: give a key"),
    ({"unique": ""}, "unique key ''"),
]


@pytest.mark.parametrize(("options", "problem"), REFUSED)
def test_what_contradicts_itself_is_refused_where_it_is_declared(
    options: dict[str, Any], problem: str
) -> None:
    async def mail(user: int) -> None: ...

    async def flow_mail(flow: Flow, user: int) -> None: ...

    with pytest.raises(InvalidInput, match=problem):
        App(NOWHERE).job(**options)(mail)
    with pytest.raises(InvalidInput, match=problem.replace("it takes user", "it takes flow, user")):
        App(NOWHERE).flow(**options, name="mail")(flow_mail)
    with pytest.raises(InvalidInput, match=problem):
        App(NOWHERE).job(mail).using(**options)


def test_a_machine_takes_the_options_too() -> None:
    app = App(NOWHERE)

    @app.machine(unique=True, debounce="5s")
    class Import(Machine[None]):
        class Download(Step):
            url: str

            async def run(self) -> Done[None]:
                return Done(None)

    with pytest.raises(InvalidInput, match="leave out delay and at"):
        Import.using(delay="1h")
    assert Import.using(debounce="10s").call(Import.Download("x")).job.debounce is not None


WITH_DEBOUNCE: list[tuple[dict[str, Any], str]] = [
    ({"delay": "1m"}, "leave out delay and at"),
    ({"deadline": "5s"}, "deadline is 5s, debounce 5s: .* expired before it may run"),
    ({"debounce": "2m"}, "max_wait is 1m, less than debounce, 2m"),
    ({"unique": False, "debounce": "2s"}, "debounce needs unique="),
]


@pytest.mark.parametrize(("options", "problem"), WITH_DEBOUNCE)
def test_options_of_one_job_are_checked_with_those_of_its_kind(options: dict[str, Any], problem: str) -> None:
    @App(NOWHERE).job(unique=["user"], debounce="5s", max_wait="1m")
    async def mail(user: int) -> None: ...

    with pytest.raises(InvalidInput, match=problem):
        mail.using(**options)


async def test_what_one_job_asks_for_takes_the_place_of_what_its_kind_declares(
    app: App, observer: Observer
) -> None:
    @app.job(unique=["user"], debounce="1h", max_wait="2h")
    async def mail(user: int, text: str) -> None: ...

    first = await mail.enqueue(1, "a")
    assert (await mail.using(on_conflict="existing").enqueue(1, "b")).id == first.id
    with pytest.raises(DuplicateJob):
        await mail.using(on_conflict="raise").enqueue(1, "b")
    assert observer.job(first.id)["args"]["text"] == "a", "neither was debounced"
    assert (await mail.using(unique=False).enqueue(1, "b")).is_new
    assert (await mail.using(unique=["user", "text"]).enqueue(1, "b")).is_new
    assert not (await mail.using(debounce="30m").enqueue(1, "c")).is_new
    job = observer.job(first.id)
    assert (job["args"]["text"], job["state"]) == ("c", "scheduled")
    until_at = "select debounced_until - debounced_since = interval '2 hours' from holdfast.job where id = 1"
    assert observer.value(until_at) is True


@both_colours
async def test_a_burst_runs_once_with_the_last_arguments(app: App) -> None:
    seen: list[int] = []

    @app.job(unique=["user"], debounce="200ms")
    async def sync(user: int, version: int) -> None:
        seen.append(version)

    async with app.worker():
        handles = [await sync.enqueue(1, version) for version in range(10)]
        handles.append(sync.enqueue_sync(1, 10))
        handles += await app.enqueue_many(sync.call(1, version) for version in (11, 12))
        handles += app.enqueue_many_sync([sync.call(1, version) for version in (13, 14)])
        for handle in handles:
            await handle.result(timeout="60s")
    assert seen[-1] == 14
    assert len(seen) == len({handle.id for handle in handles}), "as often as a key was new, no more"


async def test_a_run_that_is_superseded_and_fails_is_not_tried_again(app: App) -> None:
    began, may_end, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    async def on_cancelled(_: Context, error: BaseException) -> None:
        assert isinstance(error, JobEnded)
        assert error.error["code"] == "superseded"
        cancelled.set()

    @app.job(unique=["user"], debounce="1ms", retry=Retry(backoff="0s"), on_cancelled=on_cancelled)
    async def sync(user: int, version: int) -> None:
        seen.append(version)
        began.set()
        if version == 1:
            await may_end.wait()
            raise ValueError("the server is gone")

    async with app.worker():
        old = await sync.enqueue(1, 1)
        await began.wait()
        new = await sync.enqueue(1, 2)
        assert (old.is_new, new.is_new) == (True, True)
        may_end.set()
        await new.result(timeout="60s")  # the key is free again, and the old arguments are no newer for it
        with pytest.raises(JobEnded, match="newer arguments"):
            await old.result(timeout="60s")
        await asyncio.wait_for(cancelled.wait(), 60)
    assert seen == [1, 2]


async def test_a_flow_that_has_begun_ends_though_a_newer_one_has_its_key(app: App) -> None:
    ended: list[int] = []
    is_waiting = asyncio.Event()

    @app.flow(unique=["user"], debounce="1ms")
    async def onboard(flow: Flow, user: int, version: int) -> None:
        await flow.step("begin", _begin, is_waiting)
        await flow.wait_event(f"go:{version}")
        ended.append(version)

    async with app.worker():
        old = await onboard.enqueue(1, 1)
        await until(is_waiting.is_set)
        new = await onboard.enqueue(1, 2)
        assert new.is_new
        await app.emit("go:2")
        await new.result(timeout="60s")
        await app.emit("go:1")
        await old.result(timeout="60s")
    assert ended == [2, 1]


async def _begin(event: asyncio.Event) -> None:
    event.set()


async def test_a_debounce_is_part_of_the_callers_transaction(app: App, dsn: str, observer: Observer) -> None:
    @app.job(unique=["user"], debounce="1h")
    async def sync(user: int, version: int) -> None: ...

    first = await sync.enqueue(1, 1)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        assert not (await sync.using(conn=connection).enqueue(1, 2)).is_new
        assert observer.job(first.id)["args"]["version"] == 1
        await connection.rollback()
        assert observer.job(first.id)["args"]["version"] == 1
        async with app.using(conn=connection):
            await sync.enqueue(1, 3)
            assert (await sync.using(conn=OWN_TRANSACTION).enqueue(2, 4)).is_new
        await connection.commit()
    assert observer.job(first.id)["args"]["version"] == 3


async def test_a_throttle_drops_after_the_end_and_says_which_job_it_was(app: App) -> None:
    @app.job(unique=["user"], unique_for="1h", keep="0s")
    async def remind(user: int) -> None: ...

    async with app.worker():
        once = await remind.enqueue(1)
        await until(lambda: _is_gone(app, once.id))
        again = await remind.enqueue(1)
        assert (again.id, again.is_new) == (once.id, False)
        assert (await remind.enqueue(2)).is_new


async def _is_gone(app: App, job: int) -> bool:
    return (await app.jobs.explain(job)).reason == "unknown_id"


def test_a_job_that_is_unique_by_its_declaration_has_no_schedule() -> None:
    app = App(NOWHERE)

    @app.job(unique=True)
    async def tidy() -> None: ...

    with pytest.raises(InvalidInput, match=r'tidy has unique=.*overlap="skip"'):
        app.schedule("0 9 * * *")(tidy)
    with pytest.raises(InvalidInput, match="unique=False"):
        app.schedules.put_sync("nightly", tidy.call(), every="1h")


async def test_a_flow_calls_a_unique_kind_only_without_its_key(app: App) -> None:
    @app.job(unique=True, debounce="1h")
    async def tidy() -> int:
        return 1

    @app.flow(retry=Retry(max_attempts=1))
    async def night(flow: Flow, is_plain: bool) -> int:
        job: Any = tidy.using(unique=False) if is_plain else tidy
        result: int = await flow.call(job)
        return result

    async with app.worker():
        assert await (await night.enqueue(is_plain=True)).result(timeout="60s") == 1
        with pytest.raises(JobEnded, match="unique=False"):
            await (await night.enqueue(is_plain=False)).result(timeout="60s")
