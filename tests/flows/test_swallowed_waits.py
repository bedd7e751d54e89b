"""Code that catches BaseException around a wait keeps the flow from leaving: it is parked, and says so."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from flows.fast_worker import until_state, working
from flows.flow_statements import again, begun, emits, event, waits, wakes
from holdfast import App, Flow, Retry
from holdfast.domain.retention import Retention
from holdfast.storage import flows
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA

REASON = '{"code": "flow_diverged", "message": "caught"}'
MISTAKES = ["return", "raise", "step", "sleep", "again", "branch", "task"]


async def rest(flow: Flow, how: str) -> None:
    if how == "branch":
        await flow.gather(flow.sleep("rest", "1h"), flow.sleep("nap", "1h"))
    elif how == "task":
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(flow.sleep("rest", "1h"))
    else:
        await flow.sleep("rest", "1h")


def mistaken(app: App, done: list[str]) -> Any:
    @app.job
    async def child() -> None:
        done.append("child")

    @app.flow(name="order", retry=Retry(max_attempts=5, backoff="0s"))
    async def order(flow: Flow, after: str) -> str:
        try:
            await rest(flow, after)
        except BaseException:  # noqa: BLE001  # the mistake
            done.append("caught")
        if after == "raise":
            raise ValueError("something else")
        if after == "step":
            await flow.step("ship", done.append, "shipped")
        elif after == "sleep":
            await flow.sleep("nap", "1s")
        elif after == "again":
            try:
                await flow.call(child)
            except BaseException:  # noqa: BLE001  # the mistake
                done.append("caught")
        return "done"

    return order


@pytest.mark.parametrize("after", MISTAKES)
async def test_a_flow_whose_wait_was_swallowed_is_parked_and_does_nothing_more(app: App, after: str) -> None:
    done: list[str] = []
    order = mistaken(app, done)
    async with working(app):
        handle = await order.enqueue(after)
        await until_state(app, handle.id, "failed", "succeeded")
    record = await app.flows.show(handle.id)
    assert (record.state, record.result) == ("failed", None)
    assert record.error
    assert record.error["code"] == "flow_diverged"
    assert '"rest"' in record.error["message"]
    assert "except Exception" in record.error["message"]
    assert [run.outcome for run in record.history] == ["snoozed", "failed"]
    assert [job.id for job in (await app.jobs.list("state:failed")).jobs] == [handle.id]
    assert set(done) == {"caught"}


async def test_a_flow_whose_wait_was_swallowed_goes_on_with_mended_code(app: App, dsn: str) -> None:
    done: list[str] = []
    async with App(dsn) as before:
        order = mistaken(before, done)
        async with working(before):
            handle = await order.enqueue("step")
            await until_state(before, handle.id, "failed")

    @app.flow(name="order")
    async def mended(flow: Flow, after: str) -> str:
        await flow.sleep("rest", "1h")
        await flow.step("ship", done.append, "shipped")
        return after

    async with working(app):
        await app.flows.resume(handle.id)
        await until_state(app, handle.id, "scheduled")
        [rest] = (await app.flows.show(handle.id)).steps
        assert (rest.name, rest.state) == ("rest", "waiting")
        assert done == ["caught"]


async def test_a_wait_that_passes_through_finally_is_none_that_was_swallowed(app: App) -> None:
    turns: list[str] = []

    @app.flow
    async def order(flow: Flow) -> str:
        try:
            await flow.sleep("rest", "1ms")
        finally:
            turns.append("finally")
        try:
            await flow.sleep("nap", "1ms")
        except BaseException:
            turns.append("let through")
            raise
        return "done"

    async with working(app):
        assert await (await order.enqueue()).result(timeout="30s") == "done"
    assert turns == ["finally", "finally", "let through", "finally"]


async def test_a_step_in_finally_is_done_once_the_wait_is_over(app: App) -> None:
    done: list[str] = []

    @app.flow
    async def order(flow: Flow) -> str:
        try:
            await flow.sleep("rest", "1ms")
        finally:
            await flow.step("clean", done.append, "clean")
        return "done"

    async with working(app):
        assert await (await order.enqueue()).result(timeout="30s") == "done"
    assert done == ["clean"]


async def test_an_error_in_finally_while_a_flow_is_left_is_told_and_does_not_end_it(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    turns: list[str] = []

    @app.flow
    async def order(flow: Flow) -> str:
        try:
            await flow.sleep("rest", "1ms")
        finally:
            turns.append("finally")
            if len(turns) == 1:
                raise OSError("the socket is gone")
        return "done"

    async with working(app):
        assert await (await order.enqueue()).result(timeout="30s") == "done"
    [told] = [record for record in caplog.records if "left to wait" in record.message]
    assert told.levelname == "ERROR"
    assert turns == ["finally", "finally"]


async def test_a_flow_past_its_deadline_is_expired_though_it_catches_that(app: App) -> None:
    """The wait says that the run is to end: caught, that is no success."""

    @app.flow
    async def order(flow: Flow) -> str:
        assert flow.job.deadline_at
        while datetime.now(UTC) <= flow.job.deadline_at:  # noqa: ASYNC110  # time has no event to wait for
            await asyncio.sleep(0.05)
        with suppress(BaseException):
            await flow.sleep("rest", "1h")
        return "done"

    async with working(app):
        handle = await order.using(deadline="2s").enqueue()
        await until_state(app, handle.id, "expired", "succeeded")
    assert (await handle.status()).state == "expired"


def test_a_flow_that_was_woken_meanwhile_is_not_parked(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    assert waits(session, event(flow)) == ["waiting"]
    emits(session)
    assert wakes(session) == 1
    assert (
        session.run(
            flows.fail_waiting(SCHEMA, flow.job, flow.run, REASON, now=session.now, retention=Retention())
        )
        == []
    )
    flow, before = again(session, flow.job), flow
    assert waits(session, event(flow, "shipped")) == ["waiting"]
    assert (
        session.run(
            flows.fail_waiting(SCHEMA, flow.job, before.run, REASON, now=session.now, retention=Retention())
        )
        == []
    )
    assert session.run(
        flows.fail_waiting(SCHEMA, flow.job, flow.run, REASON, now=session.now, retention=Retention())
    ) == [flow.job]
    assert session.state(flow.job) == "failed"
    assert session.resume_dead(flow.job) == "resumed"
