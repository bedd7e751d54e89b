"""What a worker tells of chores and attempts: events first, log lines as one of their readers."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from holdfast import App
from holdfast.telemetry.events import AttemptEnded, ChoreDid, ChoreFailed, Emitter, Event
from holdfast.telemetry.log import log_event
from holdfast.worker.chores.chore import Chore, ChoreNeeds, Did, Sign, Turning
from holdfast.worker.chores.chore_loop import ChoreLoop

LONG = 60.0
TURNS = [Did(0), Did(3), Did(0), Did(2, is_more=True), Did(0)]


async def turned(turns: list[Did | Exception]) -> list[Event]:
    """The events of a chore that takes these turns."""
    heard: list[Event] = []
    is_over = asyncio.Event()
    left = iter(turns)

    async def once() -> Did:
        turn = next(left, None)
        if turn is None:
            is_over.set()
            return Did()
        loop.wake(Sign.MANY_CLAIMED)
        if isinstance(turn, Exception):
            raise turn
        return turn

    def make(needs: ChoreNeeds) -> Turning:
        raise AssertionError("no leader makes this one")

    chore = Chore(name="promote", make=make, shortest=LONG, longest=LONG, woken_by=(Sign.MANY_CLAIMED,))
    loop = ChoreLoop(chore, once, Emitter(heard.append, log_event), timedelta(seconds=LONG))
    task = asyncio.create_task(loop.run())
    async with asyncio.timeout(30):
        await is_over.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return heard


@pytest.mark.requirement("S3.32")
async def test_counts_of_a_chore_are_told_only_when_it_did_something(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "holdfast.worker")
    assert await turned(list(TURNS)) == [ChoreDid("promote", 3), ChoreDid("promote", 2)]
    assert [record.getMessage() for record in caplog.records] == [
        "chore promote: count=3",
        "chore promote: count=2",
    ]


@pytest.mark.requirement("S3.9")
async def test_a_chore_that_fails_is_told_of_and_goes_on() -> None:
    error = RuntimeError("no such table")
    assert await turned([error, Did(1)]) == [ChoreFailed("promote", error), ChoreDid("promote", 1)]


@pytest.fixture
def someone_elses_handler() -> Iterator[list[logging.LogRecord]]:
    """The application's own logging for Holdfast's lines, in place of the root logger's."""
    taken: list[logging.LogRecord] = []

    class Taking(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            taken.append(record)

    ours = logging.getLogger("holdfast")
    before, handler = (ours.level, ours.propagate), Taking()
    ours.addHandler(handler)
    ours.propagate = False
    ours.setLevel(logging.INFO)
    yield taken
    ours.removeHandler(handler)
    ours.setLevel(before[0])
    ours.propagate = before[1]


@pytest.mark.requirement("S2.7")
async def test_an_application_takes_our_lines_into_a_log_and_a_level_of_its_own(
    dsn: str, someone_elses_handler: list[logging.LogRecord]
) -> None:
    events: list[Event] = []
    # The root's level and handlers do not count for an application that has set its own.
    logging.getLogger().setLevel(logging.CRITICAL)
    try:
        async with App(dsn, readers=[events.append]) as app:

            @app.job
            async def greet() -> str:
                return "hello"

            async with app.worker():
                assert await (await greet.enqueue()).result(timeout="60s") == "hello"
    finally:
        logging.getLogger().setLevel(logging.WARNING)
    said = [record.getMessage() for record in someone_elses_handler]
    assert [line for line in said if line.startswith("attempt succeeded: job=1 kind=greet")]
    assert [event.outcome for event in events if isinstance(event, AttemptEnded)] == ["succeeded"]
