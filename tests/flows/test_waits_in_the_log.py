"""A flow that goes to wait says in the line of its attempt what it waits for."""

import asyncio
import json
import logging
import re
from datetime import UTC, datetime, timedelta

import pytest

from flows.fast_worker import working
from holdfast import App, Done, Flow, Machine, Next, Retry, Step
from holdfast.telemetry.json_formatter import JsonFormatter
from support.waiting import until

SOON = timedelta(minutes=5)


async def line_of(
    app: App, caplog: pytest.LogCaptureFixture, job: int, outcome: str = "snoozed"
) -> logging.LogRecord:
    async def found() -> list[logging.LogRecord]:
        records = [record for record in caplog.records if f"job={job} " in record.getMessage()]
        return [record for record in records if record.getMessage().startswith(f"attempt {outcome}")]

    record: logging.LogRecord = (await until(found))[0]
    return record


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "holdfast.worker")


async def test_for_an_event(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.flow
    async def order(flow: Flow, number: int) -> None:
        await flow.wait_event(f"packed:{number}", timeout="2d")

    async with working(app):
        handle = await order.enqueue(42)
        record = await line_of(app, caplog, handle.id)
    assert record.getMessage().startswith(
        f"attempt snoozed, waiting for packed:42: job={handle.id} kind=order"
    )
    line = json.loads(JsonFormatter().format(record))
    assert (line["event"], line["waiting"]) == ("attempt snoozed", "for packed:42")


async def test_for_children_of_which_a_few_are_named(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.job(queue="elsewhere")
    async def pack(item: int) -> None: ...

    @app.flow
    async def order(flow: Flow, items: int) -> None:
        await flow.gather(*(flow.call(pack, item) for item in range(items)))

    async with working(app):
        one, many = await order.enqueue(1), await order.enqueue(9)
        lone = (await line_of(app, caplog, one.id)).getMessage()
        several = (await line_of(app, caplog, many.id)).getMessage()
    assert re.match(r"attempt snoozed, waiting for job \d+: ", lone)
    assert re.match(r"attempt snoozed, waiting for jobs \d+, \d+, \d+, \d+, \d+ and 4 more: ", several)


async def test_for_a_job_of_others(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.job(queue="elsewhere")
    async def pack() -> None: ...

    @app.flow
    async def order(flow: Flow, job: int) -> None:
        await flow.wait_job(job, name="the packing")

    async with working(app):
        packing = await pack.enqueue()
        handle = await order.enqueue(packing.id)
        message = (await line_of(app, caplog, handle.id)).getMessage()
    assert message.startswith(f"attempt snoozed, waiting for job {packing.id}: ")


async def test_until_a_sleep_is_over_also_when_it_has_begun_before(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.flow
    async def order(flow: Flow) -> None:
        async def hear() -> None:
            await flow.wait_event("packed")
            await asyncio.sleep(0.3)
            await flow.wait_event("paid")

        await flow.gather(flow.sleep("cool down", SOON), hear())

    before = datetime.now(UTC)
    async with working(app):
        handle = await order.enqueue()
        await line_of(app, caplog, handle.id)  # which comes after the flow is seen to wait
        caplog.clear()
        await app.emit("packed")
        message = (await line_of(app, caplog, handle.id)).getMessage()
    found = re.match(r"attempt snoozed, waiting until (\S+) \(cool down\); for paid: ", message)
    assert found, message
    slack = timedelta(seconds=60)
    assert before + SOON - slack <= datetime.fromisoformat(found[1]) <= datetime.now(UTC) + SOON + slack


async def test_until_a_step_is_tried_again_with_its_error(app: App, caplog: pytest.LogCaptureFixture) -> None:
    async def charge() -> None:
        raise ConnectionError("no answer")

    @app.flow
    async def order(flow: Flow) -> None:
        await flow.step("charge", charge, retry=Retry(max_attempts=3, backoff="5m"))

    async with working(app):
        handle = await order.enqueue()
        record = await line_of(app, caplog, handle.id, "retried")
    assert record.levelno == logging.WARNING
    assert re.match(r"attempt retried, waiting until \S+ \(retry of charge\): ", record.getMessage())
    assert 'error="ConnectionError: no answer"' in record.getMessage()


async def test_until_a_machine_goes_on(app: App, caplog: pytest.LogCaptureFixture) -> None:
    @app.machine
    class Import(Machine[None]):
        class Begin(Step):
            async def run(self) -> Next:
                return Next(Import.Poll(), after="5m")

        class Poll(Step):
            async def run(self) -> Done[None]:
                return Done(None)

    async with working(app):
        handle = await Import.enqueue(Import.Begin())
        message = (await line_of(app, caplog, handle.id)).getMessage()
    assert re.match(r"attempt snoozed, waiting until \S+ \(Poll\): ", message)


async def test_a_machine_that_goes_on_at_once_is_said_to_have_moved(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.machine
    class Import(Machine[None]):
        class Begin(Step):
            async def run(self) -> Next:
                return Next(Import.Load())

        class Load(Step):
            async def run(self) -> Done[None]:
                return Done(None)

    async with working(app):
        handle = await Import.enqueue(Import.Begin())
        await handle.result(timeout="20s")
        record = await line_of(app, caplog, handle.id, "moved")
    assert record.getMessage().startswith(
        f"attempt moved to the next step: job={handle.id} kind=Import step=Begin queue=default attempt=1/"
    )
    assert record.levelno == logging.INFO
    line = json.loads(JsonFormatter().format(record))
    assert (line["event"], line["next_step"]) == ("attempt moved to the next step", "Load")
    assert "snoozed" not in caplog.text
