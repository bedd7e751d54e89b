"""Secrets of flows, state machines and schedules: shown to nobody, neither stored in errors nor logged."""

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import pytest

from holdfast import App, Done, Flow, Machine, Next, Retry, Secret, Step
from holdfast.cli import main
from holdfast.domain.redaction import MASK
from support.waiting import until

CARD = "4111-1111-1111"


def stored_errors(dsn: str) -> str:
    """All that the database keeps of failures."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            "select error::text from holdfast.ledger union all select error::text from holdfast.checkpoint"
        ).fetchall()
    return json.dumps(rows)


async def test_a_flow_shows_no_secret_and_its_steps_leave_none_in_errors(
    app: App, dsn: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")

    async def charge(card: str) -> str:
        raise ConnectionError(f"the bank is away, {card} not charged")

    @app.flow(retry=Retry(max_attempts=1))
    async def pay(flow: Flow, card: Secret[str], cents: int) -> None:
        await flow.step("charge", charge, card, retry=Retry(max_attempts=2, backoff="0s"))

    handle = await pay.enqueue(CARD, cents=5)
    async with app.worker():

        async def has_failed() -> bool:
            return (await handle.status()).state == "failed"

        await until(has_failed)
        record = await app.flows.show(handle.id)
    assert record.args == {"card": MASK, "cents": 5}
    assert CARD not in repr(record)
    assert MASK in stored_errors(dsn)
    assert CARD not in stored_errors(dsn)
    assert CARD not in caplog.text
    for arguments in (["flows", "show"], ["jobs", "show"], ["jobs", "explain"]):
        for more in ([], ["--json"]):
            code = await asyncio.to_thread(main, [*arguments, str(handle.id), "--dsn", dsn, *more])
            assert code == 0
    printed = capsys.readouterr()
    assert CARD not in printed.out + printed.err
    assert MASK in printed.out


async def test_a_machine_masks_the_fields_of_the_step_that_runs(
    app: App, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    @app.machine(retry=Retry(max_attempts=1))
    class Payment(Machine[None]):
        @dataclass
        class Begin(Step):
            order: int

            async def run(self) -> Next:
                return Next(Payment.Charge(CARD))

        @dataclass
        class Charge(Step):
            card: Secret[str]

            async def run(self) -> Done[None]:
                raise ValueError(f"refused {self.card}")

    handle = await Payment.enqueue(Payment.Begin(7))
    async with app.worker():

        async def has_failed() -> bool:
            return (await handle.status()).state == "failed"

        await until(has_failed)
        record = await app.flows.show(handle.id)
    assert [step.value for step in record.steps] == [{"order": 7}, {"card": MASK}]
    assert CARD not in repr(record)
    assert CARD not in stored_errors(dsn)
    assert CARD not in caplog.text


async def test_a_schedule_shows_neither_secret_arguments_nor_secret_results(
    app: App, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @app.job
    async def rotate(token: Secret[str], days: int) -> Secret[str]:
        return f"new {token}"

    stored = await app.schedules.put("rotation", rotate.call(CARD, days=3), every=timedelta(days=1))
    assert stored.args == {"token": MASK, "days": 3}
    assert [schedule.args for schedule in await app.schedules.list()] == [stored.args]
    assert (await app.schedules.get("rotation")).args == stored.args
    await app.schedules.run_now("rotation")
    async with app.worker():

        async def has_run() -> bool:
            return (await app.schedules.plans("rotation"))[0].state == "succeeded"

        await until(has_run)
    [plan] = await app.schedules.plans("rotation")
    assert plan.result == MASK
    assert CARD not in repr(plan)
    for arguments in (["list"], ["show", "rotation"], ["history", "rotation"]):
        for more in ([], ["--json"]):
            code = await asyncio.to_thread(main, ["schedules", *arguments, "--dsn", dsn, *more])
            assert code == 0
    printed = capsys.readouterr()
    assert CARD not in printed.out + printed.err
    async with App(dsn) as stranger:
        await stranger.schedules.delete("rotation")
        assert [each.result for each in await stranger.schedules.plans("rotation")] == [MASK]
