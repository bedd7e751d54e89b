"""A worker reports once which jobs no worker serves, with the queue or kind that was probably meant."""

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import noting, working
from holdfast import App
from holdfast.telemetry.events import Emitter, Event, NobodyServes
from holdfast.worker.chores.unserved_reporter import UnservedReporter
from holdfast.worker.unserved_at_start import UnservedAtStart
from holdfast.worker.unserved_warnings import UnservedWarnings
from support.waiting import until


async def test_jobs_that_no_live_worker_serves_are_warned_of(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(dsn) as app:
        note = noting(app)
        await note.using(queue="defualt").enqueue()
        books.run("select holdfast.enqueue('ntoe')")
        async with working(app):
            await until(lambda: len(said(caplog)) == 2, "it is said")
    assert said(caplog) == [
        'no live worker knows this kind: its jobs wait; did you mean "note"?: kind=ntoe',
        'no live worker serves this queue: its jobs wait; did you mean "default"?: queue=defualt',
    ]


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("no live worker")]


async def test_a_worker_that_does_not_lead_says_at_its_start_what_concerns_it(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(dsn) as app:
        note = noting(app)
        await note.using(queue="mail").enqueue()
        books.run("select holdfast.enqueue('invoice')")
        books.run("select holdfast.enqueue('report', queue => 'of another app')")
        async with working(app, is_leading_allowed=False):
            await until(lambda: len(said(caplog)) == 2, "it is said")
    assert said(caplog) == [
        "no live worker knows this kind: its jobs wait: kind=invoice",
        "no live worker serves this queue: its jobs wait: queue=mail",
    ]


async def test_what_a_worker_has_said_at_its_start_it_does_not_say_again_when_it_leads(
    dsn: str, books: Books
) -> None:
    heard: list[Event] = []
    async with App(dsn) as app:
        noting(app)
        async with working(app, is_leading_allowed=False):
            database = (await app._connections.opened()).database
            books.run("select holdfast.enqueue('invoice')")
            warnings = UnservedWarnings(database, app.schema, Emitter(heard.append))
            await UnservedAtStart(warnings, queues=["default"], kinds=["note"]).look()
            leading = UnservedReporter(warnings)
            for _ in range(3):
                await leading.once()
    assert heard == [NobodyServes(None, None, "invoice")]


async def test_it_is_said_once_and_again_when_it_was_served_meanwhile(dsn: str, books: Books) -> None:
    heard: list[Event] = []
    async with App(dsn) as app:
        noting(app)
        async with working(app, is_leading_allowed=False) as worker:
            database = (await app._connections.opened()).database
            reporter = UnservedReporter(UnservedWarnings(database, app.schema, Emitter(heard.append)))
            books.run("select holdfast.enqueue('invoice')")
            for _ in range(4):
                await reporter.once()
            assert heard == [NobodyServes(None, None, "invoice")]
            books.run("update holdfast.worker set kinds = '{note,invoice}' where id = %s", worker.id)
            await reporter.once()
            books.run("update holdfast.worker set kinds = '{note}' where id = %s", worker.id)
            await reporter.once()
            assert len(heard) == 1, "a worker that comes and goes in between is no news yet"
            await reporter.once()
            assert len(heard) == 2
