"""A payload that does not fit is refused where it is sent, or parks the flow until one comes that fits."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from flows.fast_worker import until_state, working
from flows.flow_statements import HOUR, again, begun, checkpoints, emits, event, waits, wakes
from holdfast import App, Event, Flow, FlowRecord
from holdfast.errors import EventTimeout, InvalidInput
from holdfast.storage import flows
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA
from support.waiting import until

REASON = '{"code": "decode_error", "message": "it does not fit"}'


@dataclass
class Decision:
    is_approved: bool
    by: str


def deciding(app: App, **wait: Any) -> Any:
    @app.flow(name="decide")
    async def decide(flow: Flow, order: int) -> str:
        decision = await flow.wait_event(f"approval:{order}", type=Decision, **wait)
        return await flow.step("note", note, decision.by)

    return decide


async def note(by: str) -> str:
    return f"approved by {by}"


async def until_refused(app: App, flow: int, payload: object) -> FlowRecord:
    async def is_so() -> FlowRecord | None:
        record = await app.flows.show(flow)
        is_it = record.state == "waiting" and any(step.error for step in record.waits)
        return record if is_it and record.waits[0].value == payload else None

    found: FlowRecord = await until(is_so)
    return found


async def test_a_typed_event_is_given_to_the_flow_as_its_type(app: App, dsn: str) -> None:
    approval = app.event("approval", Decision)

    @app.flow
    async def decide(flow: Flow, order: int) -> str:
        first = await flow.wait(approval, order, timeout="1h")
        second = await flow.wait(approval, order, name="second eye")
        return f"{first.by} and {second.by}"

    async with working(app):
        handle = await decide.enqueue(42)
        with psycopg.connect(dsn) as connection:
            approval.emit_sync(42, Decision(True, "Ann"), conn=connection)
            connection.rollback()
            approval.emit_sync(42, Decision(True, "Bob"), conn=connection)
        await approval.emit(42, Decision(True, "Eve"))
        assert await handle.result(timeout="30s") == "Bob and Eve"


async def test_a_value_of_another_type_is_refused_where_it_is_sent(app: App, dsn: str) -> None:
    approval: Event[Any] = app.event("approval", Decision)
    halves = Decision("no", "Ann")  # type: ignore[arg-type]  # the mistake
    for wrong in ("yes", None, {"is_approved": True}, {"is_approved": True, "by": "Ann"}, halves):
        with pytest.raises(InvalidInput, match='the payload of event "approval:42" is not of type Decision'):
            await approval.emit(42, wrong)
        with pytest.raises(InvalidInput, match='the payload of event "approval:42" is not of type Decision'):
            approval.emit_sync(42, wrong)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select count(*) from holdfast.event").fetchone() == (0,)


async def test_events_have_a_name_that_their_keys_cannot_be_mistaken_for(app: App) -> None:
    for name in ("", "order:approval"):
        with pytest.raises(InvalidInput, match="event"):
            app.event(name, Decision)
    for key in (None, ""):
        with pytest.raises(InvalidInput, match="key"):
            await app.event("approval", Decision).emit(key, Decision(True, "Ann"))


async def test_a_type_that_cannot_be_kept_is_refused_with_the_event(app: App) -> None:
    with pytest.raises(InvalidInput, match=r'event "approval": .*stored'):
        app.event("approval", type(app))


async def test_an_event_has_one_type_in_an_app(app: App) -> None:
    approval = app.event("approval", Decision)
    assert app.event("approval", Decision) is approval
    with pytest.raises(InvalidInput, match=r'event "approval" is of type .*Decision already, .*int'):
        app.event("approval", int)
    listed: Any = list[int]
    assert app.event("numbers", listed) is app.event("numbers", listed)
    with pytest.raises(InvalidInput, match=r'event "numbers" is of type list\[int\] already, .*list\[str\]'):
        app.event("numbers", list[str])
    assert app.event("approved", Decision) is not approval


async def test_a_flow_waits_only_for_events_of_an_app(app: App) -> None:
    @app.flow
    async def decide(flow: Flow) -> None:
        await flow.wait("approval", 42)  # type: ignore[arg-type]  # the mistake

    async with working(app):
        handle = await decide.enqueue()
        await until_state(app, handle.id, "failed")
    assert "flow.wait_event" in str((await handle.status()).error)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("payload", ["yes", None, {"is_approved": "perhaps", "by": "Ann"}])
async def test_a_payload_that_does_not_fit_is_kept_and_the_flow_waits_for_another(
    app: App, payload: object, *, is_first: bool
) -> None:
    decide = deciding(app)
    if is_first:
        await app.emit("approval:42", payload)
    async with working(app):
        handle = await decide.enqueue(42)
        if not is_first:
            await until_state(app, handle.id, "waiting")
            await app.emit("approval:42", payload)
        record = await until_refused(app, handle.id, payload)
        [wait] = record.waits
        assert (wait.event, wait.value, wait.failures) == ("approval:42", payload, 1)
        for error in (wait.error, record.error, (await handle.status()).error):
            assert error is not None
            assert error["code"] == "decode_error"
            assert 'the payload of event "approval:42" does not fit' in error["message"]
            assert "holdfast flows emit approval:42" in error["message"]
        [summary] = await app.flows.list(state="waiting")
        assert (summary.waits_for, summary.error) == ("approval:42", wait.error)
        await app.emit("approval:42", {"is_approved": True, "by": "Eve"})
        assert await handle.result(timeout="30s") == "approved by Eve"
        done = (await app.flows.show(handle.id)).steps[0]
        assert (done.state, done.error, done.value) == ("done", None, {"is_approved": True, "by": "Eve"})
        assert (await handle.status()).error is None


async def test_of_several_events_the_first_that_fits_is_taken_and_the_next_stays(app: App, dsn: str) -> None:
    decide = deciding(app)
    for payload in ("no", 7, {"is_approved": True, "by": "Ann"}, {"is_approved": True, "by": "Bob"}):
        await app.emit("approval:42", payload)
    async with working(app):
        assert await (await decide.enqueue(42)).result(timeout="30s") == "approved by Ann"
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select payload ->> 'by' from holdfast.event").fetchall() == [("Bob",)]


async def test_code_that_takes_the_kept_payload_goes_on_with_it(app: App, dsn: str) -> None:
    async with App(dsn) as before:
        old = deciding(before)
        await before.emit("approval:42", "Ann")
        async with working(before):
            handle = await old.enqueue(42)
            await until_refused(before, handle.id, "Ann")

    @app.flow(name="decide")
    async def decide(flow: Flow, order: int) -> str:
        return await flow.step("note", note, await flow.wait_event(f"approval:{order}", type=str))

    async with working(app):
        assert await decide.handle(handle.id).result(timeout="30s") == "approved by Ann"
        [kept, _] = (await app.flows.show(handle.id)).steps
        assert (kept.state, kept.error, kept.value) == ("done", None, "Ann")


async def test_a_wait_that_refuses_what_came_is_late_at_its_own_time(app: App) -> None:
    @app.flow
    async def decide(flow: Flow) -> str:
        try:
            return (await flow.wait_event("approval", type=Decision, timeout="500ms")).by
        except EventTimeout:
            return "late"

    await app.emit("approval", "no")
    async with working(app):
        assert await (await decide.enqueue()).result(timeout="30s") == "late"


async def test_a_branch_that_refuses_what_came_holds_up_no_other(app: App) -> None:
    @app.flow
    async def decide(flow: Flow) -> list[str]:
        async def one(who: str) -> str:
            decision = await flow.wait_event(who, type=Decision)
            return await flow.step(f"note {who}", note, decision.by)

        return list(await flow.gather(one("Ann"), one("Bob")))

    async with working(app):
        handle = await decide.enqueue()
        await until_state(app, handle.id, "waiting")
        await app.emit("Ann", "no")
        await until_refused(app, handle.id, "no")
        await app.emit("Bob", {"is_approved": True, "by": "Bob"})

        async def is_noted() -> bool:
            steps = (await app.flows.show(handle.id)).steps
            return any(step.name == "note Bob" and step.state == "done" for step in steps)

        await until(is_noted)
        await until_refused(app, handle.id, "no")
        await app.emit("Ann", {"is_approved": True, "by": "Ann"})
        assert await handle.result(timeout="30s") == ["approved by Ann", "approved by Bob"]


async def test_an_event_that_was_taken_before_is_not_waited_for_again(app: App, dsn: str) -> None:
    """What followed it was done with the payload that it had: here the definition has changed."""
    async with App(dsn) as before:

        @before.flow(name="decide")
        async def old(flow: Flow) -> None:
            await flow.wait_event("approval", type=str)
            await flow.sleep("rest", "1s")

        await before.emit("approval", "Ann")
        async with working(before):
            handle = await old.enqueue()
            await until_state(before, handle.id, "scheduled")

    @app.flow(name="decide")
    async def new(flow: Flow) -> None:
        await flow.wait_event("approval", type=Decision)
        await flow.sleep("rest", "1s")

    async with working(app):

        async def is_undecodable() -> bool:
            runs = (await app.flows.show(handle.id)).history
            return any(run.error and run.error["code"] == "decode_error" for run in runs)

        await until(is_undecodable)
        [taken, _] = (await app.flows.show(handle.id)).steps
        assert (taken.state, taken.value) == ("done", "Ann")


def refusal(fence: flows.Fence, *, within: timedelta | None = None, failures: int = 1) -> flows.Wait:
    return event(fence, within=within)._replace(error=REASON, failures=failures)


def test_a_refused_event_is_open_again_with_its_payload_and_its_time(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    assert waits(session, event(flow, within=HOUR)) == ["waiting"]
    session.pass_time(HOUR / 2)
    emits(session, payload='"no"')
    assert wakes(session) == 1
    flow = again(session, flow.job)
    assert waits(session, refusal(flow, within=HOUR)) == ["waiting"]
    kept = checkpoints(session, flow.job)["wait for packed"]
    assert (kept.is_done, kept.value, kept.error, kept.failures) == (False, '"no"', REASON, 1)
    assert kept.left_to_wait == HOUR / 2
    assert [entry.outcome for entry in session.history(flow.job)] == ["snoozed", "snoozed"]


def test_a_refused_event_is_looked_at_again_ever_later(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    emits(session, payload='"no"')
    assert waits(session, event(flow)) == ["done"]
    for failures, seconds in ((1, 5), (2, 10), (7, 320), (8, 600), (30_000, 600)):
        assert waits(session, refusal(flow, failures=failures)) == ["waiting"]
        session.pass_time(timedelta(seconds=seconds - 1))
        assert session.run(flows.time_out(SCHEMA, now=session.now))[0].moved == 0
        session.pass_time(timedelta(seconds=1))
        assert session.run(flows.time_out(SCHEMA, now=session.now))[0].moved == 1
        flow = again(session, flow.job)
        assert checkpoints(session, flow.job)["wait for packed"].value == '"no"'


def test_an_event_that_came_meanwhile_takes_the_place_of_a_refused_one_at_once(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    flow = begun(session)
    emits(session, payload='"no"')
    emits(session, payload='"yes"')
    assert waits(session, event(flow)) == ["done"]
    [answer] = session.hold(flows.wait(SCHEMA, [refusal(flow)], now=session.now))
    assert (answer.status, answer.value) == ("done", '"yes"')
    kept = checkpoints(session, flow.job)["wait for packed"]
    assert (kept.is_done, kept.value, kept.error) == (True, '"yes"', None)
    assert session.state(flow.job) == "running"
