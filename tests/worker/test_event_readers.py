"""Events of attempts are made only for readers that want them; an attempt's task is named after its kind."""

import asyncio
import gc
import logging
import weakref
from typing import Any

import pytest

from holdfast import App, Context
from holdfast.telemetry.events import AttemptEnded, AttemptStarted, Emitter, Event, LeaseWasLost
from holdfast.telemetry.log import log_event

KINDS: list[type[Event]] = [AttemptStarted, AttemptEnded, LeaseWasLost]


@pytest.mark.parametrize(
    ("level", "heard"),
    [(logging.DEBUG, KINDS), (logging.INFO, KINDS[1:]), (logging.WARNING, KINDS[2:]), (logging.ERROR, [])],
)
def test_the_log_hears_what_its_level_lets_through(
    level: int, heard: list[type[Event]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, "holdfast.worker")
    emitter = Emitter(log_event)
    assert [kind for kind in KINDS if emitter.is_heard(kind)] == heard


def test_a_reader_without_a_choice_hears_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "holdfast.worker")
    taken: list[Event] = []
    assert all(map(Emitter(log_event, taken.append).is_heard, KINDS))
    assert not any(map(Emitter().is_heard, KINDS))


class Failing:
    def __call__(self, event: Event) -> None:
        """A reader that takes every event."""

    def hears(self, kind: type[Event]) -> bool:
        raise RuntimeError(f"no opinion on {kind.__name__}")


class Otherwise:
    """A reader with an attribute of that name that is no method."""

    hears = ()

    def __call__(self, event: Event) -> None:
        """A reader that takes every event."""


@pytest.mark.parametrize("reader", [Failing(), Otherwise()])
async def test_a_reader_that_cannot_say_what_it_hears_disturbs_neither_jobs_nor_hooks(
    dsn: str, reader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []

    async def on_success(context: Context) -> None:
        called.append(context.job.id)

    async with App(dsn, readers=[reader]) as app:

        @app.job(on_success=on_success)
        async def greet() -> str:
            return "hello"

        async with app.worker():
            handle = await greet.enqueue()
            assert await handle.result(timeout="60s") == "hello"
    assert called == [handle.id]
    assert ("a reader of events failed" in caplog.text) == isinstance(reader, Failing)


async def test_an_app_whose_handler_keeps_handles_can_be_collected(dsn: str) -> None:
    async def used() -> "weakref.ref[App]":
        kept: list[object] = []
        async with App(dsn) as app:

            @app.job
            async def greet() -> int:
                return len(kept)

            kept += [await greet.enqueue(), greet.call()]
        return weakref.ref(app)

    app = await used()
    gc.collect()
    assert app() is None


@pytest.mark.parametrize("has_factory", [False, True])
async def test_an_attempts_task_is_named_after_its_kind_also_by_a_factory_of_the_applications(
    dsn: str, has_factory: bool
) -> None:
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> "asyncio.Task[Any]":
        # The loop makes a task for each forgotten generator that is collected, which has no such name.
        made.append(getattr(coro, "__qualname__", ""))
        return asyncio.Task(coro, loop=loop, **options)

    if has_factory:
        asyncio.get_running_loop().set_task_factory(factory)
    async with App(dsn) as app:

        @app.job
        async def greet() -> str | None:
            task = asyncio.current_task()
            return task.get_name() if task else None

        async with app.worker():
            assert await (await greet.enqueue()).result(timeout="60s") == "greet"
    assert ("AttemptRunner.run" in made) == has_factory


async def test_a_run_that_began_unheard_is_heard_when_it_ends(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()
    caplog.set_level(logging.WARNING, "holdfast.worker")
    async with App(dsn) as app:

        @app.job
        async def dawdle() -> None:
            began.set()
            await may_end.wait()

        async with app.worker():
            handle = await dawdle.enqueue()
            await asyncio.wait_for(began.wait(), 20)
            caplog.set_level(logging.INFO, "holdfast.worker")
            may_end.set()
            await handle.result("20s")
    assert [record for record in caplog.records if f"job={handle.id}" in record.getMessage()]
