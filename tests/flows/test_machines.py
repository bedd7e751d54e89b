"""State machines: explicit steps, each kept before it runs, each with its own tries."""

import asyncio
import json
import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from flows.fast_worker import state_of, until_state, working
from holdfast import App, Context, Done, Fail, Flow, Machine, Next, Retry, Snooze, Step
from holdfast.errors import InvalidArguments, InvalidInput, JobEnded
from holdfast.storage.job_lookup import find, history, misfit_for
from holdfast.storage.operators import resume_dead
from support.blocking_in_a_loop import both_colours
from support.waiting import until


@dataclass
class Report:
    rows: int
    source: str


def rows_of(dsn: str, query: str, *params: object) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode(), params).fetchall()


async def test_a_machine_goes_from_step_to_step_and_ends_with_a_typed_result(app: App) -> None:
    ran: list[object] = []

    @app.machine
    class Import(Machine[Report]):
        class Download(Step):
            url: str

            async def run(self) -> Next:
                ran.append(self)
                return Next(Import.Parse(path="/tmp/1", source=self.url))

        class Parse(Step):
            path: str
            source: str
            limits: tuple[int, ...] = (1, 2)

            def run(self, ctx: Context) -> Next | Done[Report]:
                ran.append((ctx.attempt, threading.current_thread().name.startswith("holdfast-job")))
                return Done(Report(sum(self.limits), self.source))

    async with working(app):
        handle = await Import.enqueue(Import.Download(url="https://example.org/a.csv"))
        assert await handle.result(timeout="30s") == Report(3, "https://example.org/a.csv")
    assert ran == [Import.Download("https://example.org/a.csv"), (1, True)]
    entries = await app.run(history(app.schema, handle.id))
    assert [(entry.outcome, entry.is_final) for entry in entries] == [("snoozed", False), ("succeeded", True)]
    assert json.loads(entries[0].result or "") == {"step": "Download", "next": "Parse"}


@pytest.mark.requirement("S1.17", "S1.18", "S1.19", "S1.20", "S1.21", "S1.23")
async def test_a_failing_step_is_run_once_and_for_each_of_its_retries_and_a_new_step_starts_counting_again(
    app: App,
) -> None:
    ran: list[tuple[str, int]] = []

    @app.machine(retry=Retry(max_attempts=1))
    class Shaky(Machine):
        class First(Step, retry=Retry(max_attempts=3, backoff="1ms")):
            async def run(self, ctx: Context) -> Next:
                ran.append(("first", ctx.attempt))
                if ctx.attempt < 3:
                    raise ConnectionError(f"not yet {ctx.attempt}")
                return Next(Shaky.Second("a field like any other"))

        class Second(Step, retry=Retry(max_attempts=6, backoff="1ms")):
            retry: str

            async def run(self, ctx: Context) -> Next:
                ran.append(("second", ctx.attempt))
                raise ValueError("outer") from KeyError("inner")

    async with working(app):
        handle = await Shaky.enqueue(Shaky.First())
        with pytest.raises(JobEnded, match="outer"):
            await handle.result(timeout="30s")
    assert ran == [("first", n) for n in (1, 2, 3)] + [("second", n) for n in range(1, 7)]
    entries = await app.run(history(app.schema, handle.id))
    assert [entry.outcome for entry in entries] == ["retried"] * 2 + ["snoozed"] + ["retried"] * 5 + [
        "failed"
    ]
    assert [entry.attempt for entry in entries] == [1, 2, 3, 1, 2, 3, 4, 5, 6]
    failed = [entry for entry in entries if entry.outcome != "snoozed"]
    errors = [json.loads(entry.error or "") for entry in failed]
    assert [error["message"] for error in errors] == ["not yet 1", "not yet 2"] + ["outer"] * 6
    assert errors[-1]["causes"] == ["KeyError: 'inner'"]


@pytest.mark.requirement("S1.24", "S1.25")
async def test_a_step_after_a_delay_holds_no_worker_and_is_due_by_the_databases_clock(
    app: App, dsn: str
) -> None:
    ran: list[str] = []

    @app.machine
    class Polling(Machine[str]):
        class Ask(Step):
            turn: int = 0

            async def run(self) -> Next | Done[str]:
                ran.append(f"ask {self.turn}")
                return Next(Polling.Ask(self.turn + 1), after="1h" if self.turn else "1ms")

    async with working(app, slots=1) as worker:
        handle = await Polling.enqueue(Polling.Ask())

        async def is_waiting() -> bool:
            return len(ran) == 2 and await state_of(app, handle.id) == "scheduled"

        await until(is_waiting)
        assert worker.stopping is not None
    [(delay, attempt)] = rows_of(
        dsn,
        "select s.run_at - l.finished_at, s.attempt from holdfast.scheduled s "
        "join holdfast.ledger l using (job) order by l.run desc limit 1",
    )
    assert (delay, attempt) == (timedelta(hours=1), 0)
    assert rows_of(dsn, "select count(*) from holdfast.lease") == [(0,)]
    # However often it goes round, it has one row for each step.
    [(name, place, is_done, value)] = rows_of(
        dsn, "select name, place, is_done, value from holdfast.checkpoint"
    )
    assert (name, place, is_done, value) == ("Ask", 3, False, {"turn": 2})


@pytest.mark.requirement("S1.1", "S1.6", "S1.15", "S1.16")
async def test_a_step_that_does_not_decode_is_parked_with_its_raw_text_and_resumed_at_that_step(
    app: App, dsn: str
) -> None:
    ran: list[object] = []

    @app.machine
    class Import(Machine[int]):
        class Download(Step):
            async def run(self) -> Next:
                ran.append("download")
                return Next(Import.Parse(rows=1), after="1h")

        class Parse(Step):
            rows: int

            async def run(self) -> Done[int]:
                ran.append(self.rows)
                return Done(self.rows)

    async with working(app):
        handle = await Import.enqueue(Import.Download())
        await until_state(app, handle.id, "scheduled")
    with psycopg.connect(dsn) as connection:
        # As if an older version had stored it, long ago.
        connection.execute(
            "update holdfast.checkpoint set value = '{\"lines\": 7}', written_at = now() - interval '1 day' "
            "where not is_done"
        )
        connection.execute("update holdfast.scheduled set run_at = now()")

    async def is_put_off() -> bool:
        return (await app.run(misfit_for(app.schema, handle.id)))[0] is not None

    async with working(app):
        await until(is_put_off)
        with psycopg.connect(dsn) as connection:
            # As if that had been longer ago than a deploy takes.
            connection.execute("update holdfast.ledger set finished_at = finished_at - interval '11 minutes'")
        await until_state(app, handle.id, "failed")
        found = (await app.run(find(app.schema, handle.id)))[0]
        error = json.loads(found.error or "")
        assert error["code"] == "decode_error"
        assert '{"lines": 7}' in error["message"]
        assert "definition has probably changed" in error["message"]
        assert found.attempt == 1
        with psycopg.connect(dsn) as connection:
            connection.execute("update holdfast.checkpoint set value = '{\"rows\": 7}' where not is_done")
        await app._connections.hold(resume_dead(app.schema, [handle.id]), None)
        assert await handle.result(timeout="30s") == 7
    assert ran == ["download", 7]


@pytest.mark.requirement("S1.15")
async def test_a_new_step_that_this_version_does_not_know_waits_for_one_that_does(app: App, dsn: str) -> None:
    @app.machine
    class Import(Machine):
        class Download(Step):
            async def run(self) -> Next:
                return Next(Import.Parse(), after="1h")

        class Parse(Step):
            async def run(self) -> Done[None]:
                return Done(None)

    async with working(app):
        handle = await Import.enqueue(Import.Download())
        await until_state(app, handle.id, "scheduled")
        with psycopg.connect(dsn) as connection:
            connection.execute("update holdfast.checkpoint set name = 'Load' where not is_done")
            connection.execute("update holdfast.scheduled set run_at = now()")
            connection.execute("select pg_notify('holdfast.due', '')")

        async def is_put_off() -> bool:
            entries = await app.run(history(app.schema, handle.id))
            return bool(entries[-1].error)

        await until(is_put_off)
    entry = (await app.run(history(app.schema, handle.id)))[-1]
    assert (entry.outcome, entry.is_final) == ("snoozed", False)
    assert 'Import has no step "Load", it has Download, Parse' in json.loads(entry.error or "")["message"]


@pytest.mark.requirement("S1.26")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("unstorable", "cannot be"),
        ("foreign", "is not a step of Odd"),
        ("nothing", "return Next"),
        ("no length", "after"),
        ("completion", "ends by what it returns"),
    ],
)
async def test_a_next_step_that_cannot_be_stored_is_the_steps_terminal_error(
    app: App, given: str, said: str
) -> None:
    ran: list[str] = []

    class Elsewhere(Step):
        async def run(self) -> Done[None]:
            return Done(None)

    @app.machine
    class Odd(Machine):
        class Begin(Step):
            async def run(self, ctx: Context) -> Any:
                ran.append("begin")
                if given == "completion":
                    async with ctx.transaction():
                        pass
                return {
                    "unstorable": Next(Odd.Begin2(value=object())),
                    "foreign": Next(Elsewhere()),
                    "nothing": None,
                    "no length": Next(Odd.Begin(), after="soon"),
                }[given]

        class Begin2(Step):
            value: Any

            async def run(self) -> Done[None]:
                return Done(None)

    async with working(app):
        handle = await Odd.enqueue(Odd.Begin())
        with pytest.raises(JobEnded, match=said):
            await handle.result(timeout="30s")
    assert ran == ["begin"]


@pytest.mark.requirement("S1.30")
async def test_log_lines_name_job_step_try_of_how_many_and_delay(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.worker")

    @app.machine
    class Import(Machine):
        class Download(Step, retry=Retry(max_attempts=4, backoff="2ms")):
            async def run(self, ctx: Context) -> Done[None]:
                if ctx.attempt == 1:
                    raise ConnectionError("refused")
                return Done(None)

    async with working(app):
        handle = await Import.enqueue(Import.Download())
        await handle.result(timeout="30s")
    lines = [record.getMessage() for record in caplog.records if f"job={handle.id} " in record.getMessage()]
    [retried, succeeded] = [line for line in lines if line.startswith("attempt ")]
    assert f"attempt retried: job={handle.id} kind=Import step=Download queue=default attempt=1/4" in retried
    assert "delay=2ms" in retried
    assert "refused" in retried
    assert "attempt succeeded" in succeeded
    assert "step=Download" in succeeded
    assert "attempt=2/4" in succeeded


async def test_a_step_may_snooze_fail_for_good_and_take_too_long(app: App) -> None:
    ran: list[str] = []

    @app.machine
    class Wishing(Machine):
        class Snoozing(Step):
            async def run(self, ctx: Context) -> Next:
                ran.append(f"snoozing {ctx.attempt}")
                if len(ran) == 1:
                    raise Snooze("1ms")
                return Next(Wishing.Slow())

        class Slow(Step, retry=Retry(max_attempts=2, backoff="1ms"), timeout="20ms"):
            async def run(self, ctx: Context) -> Next:
                ran.append(f"slow {ctx.attempt}")
                if ctx.attempt == 1:
                    await asyncio.Event().wait()
                return Next(Wishing.Failing())

        class Failing(Step):
            async def run(self) -> Next:
                raise Fail("enough")

    async with working(app):
        handle = await Wishing.enqueue(Wishing.Snoozing())
        with pytest.raises(JobEnded, match="enough"):
            await handle.result(timeout="30s")
    assert ran == ["snoozing 1", "snoozing 1", "slow 1", "slow 2"]
    codes = [
        json.loads(entry.error)["code"]
        for entry in await app.run(history(app.schema, handle.id))
        if entry.error
    ]
    assert codes == ["timeout", "handler_error"]


async def test_a_cancelled_machine_does_not_go_on_to_its_next_step(app: App, dsn: str) -> None:
    ran: list[str] = []

    @app.machine
    class Import(Machine):
        class Download(Step):
            async def run(self) -> Next:
                ran.append("download")
                # Too late for the worker to be told of it before the step has ended.
                with psycopg.connect(dsn) as connection:
                    connection.execute("update holdfast.lease set cancel_requested_at = now()")
                return Next(Import.Parse())

        class Parse(Step):
            async def run(self) -> Done[None]:
                ran.append("parse")
                return Done(None)

    async with working(app):
        handle = await Import.enqueue(Import.Download())
        await until_state(app, handle.id, "cancelled")
    assert ran == ["download"]


@both_colours
async def test_a_machine_is_started_with_the_words_of_every_job(app: App, dsn: str) -> None:
    @app.machine(queue="imports", priority=3)
    class Import(Machine[int]):
        class Download(Step):
            url: str

            async def run(self) -> Done[int]:
                return Done(len(self.url))

    first = await Import.using(unique=True, delay="1h").enqueue(Import.Download("a"))
    again = await Import.using(unique=True).enqueue(Import.Download("a"))
    other = Import.using(unique=True, queue="other", deadline="1h").enqueue_sync(Import.Download("b"))
    assert (again.id, again.is_new, other.is_new) == (first.id, False, True)
    await app.enqueue_many([Import.call(Import.Download("c"))])
    assert rows_of(dsn, "select queue, priority, args from holdfast.job order by id") == [
        ("imports", 3, {"step": "Download", "fields": {"url": "a"}}),
        ("other", 3, {"step": "Download", "fields": {"url": "b"}}),
        ("imports", 3, {"step": "Download", "fields": {"url": "c"}}),
    ]


def test_wrong_machines_are_refused_when_they_are_declared_and_wrong_steps_when_they_are_enqueued() -> None:
    app = App()

    class Empty(Machine):
        pass

    with pytest.raises(InvalidInput, match="has no steps"):
        app.machine(Empty)

    class Idle(Machine):
        class Begin(Step):
            pass

    with pytest.raises(InvalidInput, match=r"Idle.Begin has no method run"):
        app.machine(Idle)

    with pytest.raises(InvalidInput, match="the retry of Often is 3"):

        class Often(Step, retry=3):  # type: ignore[arg-type]  # the mistake
            pass

    with pytest.raises(InvalidInput, match=r"Apart: a step takes retry and timeout, not isolate") as raised:

        class Apart(Step, isolate="process"):  # type: ignore[arg-type]  # the mistake
            pass

    assert '@app.job(isolate="process")' in str(raised.value)
    with pytest.raises(InvalidInput, match=r'takes retry and timeout, not retires; did you mean "retry"\?'):

        class Misspelt(Step, retires=Retry()):  # type: ignore[arg-type]  # the mistake
            pass

    class Sound(Machine):
        class Begin(Step):
            size: int

            async def run(self) -> Done[None]:
                return Done(None)

    with pytest.raises(InvalidInput, match="does not belong to an app yet"):
        Sound.call(Sound.Begin(1))
    app.machine(Sound)
    app.check()
    with pytest.raises(InvalidArguments, match="size"):
        Sound.call(Sound.Begin("large"))  # type: ignore[arg-type]  # the mistake
    with pytest.raises(InvalidInput, match="is not a step of Sound"):
        Sound.call(Idle.Begin())
    with pytest.raises(InvalidInput, match="belongs to an app already"):
        App().machine(Sound)


async def test_a_machine_may_be_the_child_of_a_flow_and_be_fired_by_a_schedule(app: App) -> None:
    @app.machine
    class Counting(Machine[int]):
        class Begin(Step):
            size: int

            async def run(self) -> Next:
                return Next(Counting.End(self.size + 1))

        class End(Step):
            size: int

            async def run(self) -> Done[int]:
                return Done(self.size)

    @app.flow
    async def parent(flow: Flow) -> int:
        return await flow.call(Counting.using(), Counting.Begin(1))

    stored = await app.schedules.put("count", Counting.call(Counting.Begin(5)), every="1h")
    assert stored.args == {"step": "Begin", "fields": {"size": 5}}
    async with working(app):
        assert await (await parent.enqueue()).result(timeout="30s") == 2
