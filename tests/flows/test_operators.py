"""What operators see of flows, and do with them."""

import re

import pytest

from flows.fast_worker import state_of, until_state, working
from holdfast import App, Context, Done, Flow, Machine, Next, Retry, Step
from holdfast.errors import (
    FlowNotFailed,
    InvalidInput,
    JobEnded,
    JobNotFound,
    NotAFlow,
    StepFailed,
    StepNotFound,
)
from support.blocking_in_a_loop import both_colours
from support.waiting import until


class Shop:
    """A flow that fails when it is told to, and a machine that does."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.ran: list[str] = []
        self.is_broken = True

        @app.job
        async def mail(to: str) -> str:
            return f"sent to {to}"

        @app.flow(retry=Retry(max_attempts=1))
        async def order(flow: Flow, number: int) -> str:
            await flow.step("reserve", self.do, "reserve")
            await flow.wait_event(f"packed:{number}", timeout="7 days")
            await flow.gather(flow.call(mail, "ann"), flow.call(mail, "bob"))
            await flow.step("ship", self.do, "ship")
            await flow.step("charge", self.break_, "charge")
            return "shipped"

        @app.machine
        class Import(Machine[str]):
            class Download(Step):
                url: str

                async def run(_) -> Next:  # noqa: N805  # the shop is meant by self
                    self.ran.append("download")
                    return Next(Import.Parse(2))

            class Parse(Step, retry=Retry(max_attempts=2, backoff="1ms")):
                rows: int

                async def run(_, ctx: Context) -> Done[str]:  # noqa: N805  # as above
                    await self.break_(f"parse {ctx.attempt}")
                    return Done("imported")

        self.order, self.import_ = order, Import

    async def do(self, what: str) -> str:
        self.ran.append(what)
        return what

    async def break_(self, what: str) -> str:
        self.ran.append(what)
        if self.is_broken:
            raise ConnectionError("refused")
        return what


@pytest.fixture
def shop(app: App) -> Shop:
    return Shop(app)


@both_colours
async def test_a_flow_is_shown_with_its_steps_waits_children_and_history(shop: Shop, app: App) -> None:
    handle = await shop.order.enqueue(42)
    [fresh] = await app.flows.list()
    assert (fresh.id, fresh.state, fresh.step, fresh.done) == (handle.id, "ready", None, 0)
    async with working(app):
        await until_state(app, handle.id, "waiting")
        [waiting] = await app.flows.list(state="waiting")
        assert (waiting.kind, waiting.step, waiting.waits_for, waiting.done) == (
            "order",
            "packed:42",
            "packed:42",
            1,
        )
        record = await app.flows.show(handle.id)
        [wait] = record.waits
        assert (wait.event, wait.until) == ("packed:42", waiting.until)
        assert wait.until is not None
        assert wait.until > wait.at
        await app.emit("packed:42", {"by": "eve"})
        await until_state(app, handle.id, "failed")
    record = app.flows.show_sync(handle.id)
    shown = [(step.name, step.kind, step.state, step.value) for step in record.steps]
    # Children end in any order.
    assert [*shown[:2], *sorted(shown[2:4]), *shown[4:]] == [
        ("reserve", "step", "done", "reserve"),
        ("packed:42", "event", "done", {"by": "eve"}),
        ("mail[0]", "call", "done", "sent to ann"),
        ("mail[1]", "call", "done", "sent to bob"),
        ("ship", "step", "done", "ship"),
    ]
    assert [child.child_kind for child in record.children] == ["mail", "mail"]
    assert (record.args, record.is_machine, record.waits) == ({"number": 42}, False, [])
    # It waited for the event, and for its children only if these were not faster.
    outcomes = [run.outcome for run in record.history]
    assert (outcomes[0], outcomes[-1]) == ("snoozed", "failed")
    assert (record.error or {})["message"] == "refused"
    failed = await app.flows.list(kind="order", state="failed")
    assert [(flow.id, flow.step) for flow in failed] == [(handle.id, "ship")], "the last that it did"
    assert await app.flows.list(before=handle.id) == []
    assert await app.flows.list(kind="nothing") == []


@pytest.mark.requirement("S1.6")
async def test_the_step_of_a_failed_flow_is_the_last_that_it_did_in_a_branch_too(
    shop: Shop, app: App
) -> None:
    @app.flow(retry=Retry(max_attempts=1))
    async def fan(flow: Flow) -> None:
        await flow.step("first", shop.do, "first")
        await flow.gather(flow.step("left", shop.do, "left"), flow.step("right", shop.do, "right"))
        await flow.step("last", shop.break_, "last")

    handle = await fan.enqueue()
    async with working(app):
        await until_state(app, handle.id, "failed")
    [failed] = await app.flows.list(kind="fan")
    assert failed.step in ("left", "right")


async def test_a_child_that_was_cancelled_is_not_shown_as_failed(app: App) -> None:
    @app.job
    async def mail() -> None: ...

    @app.flow(retry=Retry(max_attempts=1))
    async def order(flow: Flow) -> None:
        await flow.call(mail.using(delay="1d"))

    handle = await order.enqueue()
    async with working(app):
        await until_state(app, handle.id, "waiting")
        [child] = (await app.flows.show(handle.id)).children
        assert child.child is not None
        assert await app.handle(child.child).cancel("sold out") == "cancelled"
        await until_state(app, handle.id, "failed")
    [child] = (await app.flows.show(handle.id)).children
    assert child.state == "cancelled"
    assert (child.error or {})["message"] == "sold out"


@both_colours
async def test_a_plain_job_is_not_taken_for_a_flow(app: App, dsn: str) -> None:
    @app.job(retry=Retry(max_attempts=1))
    async def mail() -> None:
        raise ValueError("no such mailbox")

    handle = await mail.enqueue()
    async with working(app):
        await until_state(app, handle.id, "failed")
    async with App(dsn) as stranger:
        for operators in (app.flows, stranger.flows):
            for verb, instead in (
                (operators.show, "app.handle({}).status()"),
                (operators.resume, "app.jobs.resume({})"),
                (operators.retry, "app.jobs.retry({})"),
                (operators.cancel, "app.jobs.cancel({})"),
            ):
                with pytest.raises(NotAFlow, match=re.escape(instead.format(handle.id))) as plain:
                    await verb(handle.id)
                assert (plain.value.job, plain.value.kind) == (handle.id, "mail")
            for blocking in (
                operators.show_sync,
                operators.resume_sync,
                operators.retry_sync,
                operators.cancel_sync,
            ):
                with pytest.raises(NotAFlow):
                    blocking(handle.id)
    assert (await handle.status()).state == "failed", "nothing was changed"


async def test_a_flow_that_has_done_nothing_is_known_by_its_app_and_by_others_of_its_kind(
    app: App, dsn: str
) -> None:
    @app.flow(retry=Retry(max_attempts=1))
    async def order(flow: Flow, number: int) -> None:
        if number == 0:
            raise ValueError("before the first step")
        await flow.step("reserve", lambda: None)

    failed = await order.enqueue(0)
    async with working(app):
        await until_state(app, failed.id, "failed")
        assert (await app.flows.show(failed.id)).steps == []
        async with App(dsn) as stranger:
            with pytest.raises(NotAFlow):
                await stranger.flows.show(failed.id)
            await (await order.enqueue(1)).result(timeout="60s")
            assert (await stranger.flows.show(failed.id)).state == "failed"
            await stranger.flows.resume(failed.id)


async def test_a_failed_flow_is_resumed_where_it_stopped(shop: Shop, app: App) -> None:
    async with working(app):
        await app.emit("packed:1")
        handle = await shop.order.enqueue(1)
        await until_state(app, handle.id, "failed")
        shop.is_broken = False
        await app.flows.resume(handle.id)
        assert await handle.result(timeout="30s") == "shipped"
    assert shop.ran == ["reserve", "ship", "charge", "charge"]


async def test_a_failed_flow_is_retried_from_a_named_step(shop: Shop, app: App) -> None:
    async with working(app):
        await app.emit("packed:1")
        handle = await shop.order.enqueue(1)
        await until_state(app, handle.id, "failed")
        with pytest.raises(StepNotFound, match='not done a step "charge", it has done reserve') as found:
            await app.flows.retry(handle.id, from_step="charge")
        assert found.value.done[:2] == ["reserve", "packed:1"]
        shop.is_broken = False
        await app.flows.retry(handle.id, from_step="ship")
        assert await handle.result(timeout="30s") == "shipped"
    assert shop.ran == ["reserve", "ship", "charge", "ship", "charge"]


@pytest.mark.requirement("S1.6")
@both_colours
async def test_a_failed_machine_is_resumed_at_its_step_and_put_back_to_an_earlier_one(
    shop: Shop, app: App
) -> None:
    async with working(app):
        handle = await shop.import_.enqueue(shop.import_.Download("a"))
        await until_state(app, handle.id, "failed")
        record = await app.flows.show(handle.id)
        assert record.is_machine
        assert [(step.name, step.state, step.value) for step in record.steps] == [
            ("Download", "done", {"url": "a"}),
            ("Parse", "failed", {"rows": 2}),
        ]
        assert [(run.step, run.next, run.outcome, run.attempt) for run in record.history] == [
            ("Download", "Parse", "snoozed", 1),
            ("Parse", None, "retried", 1),
            ("Parse", None, "failed", 2),
        ]
        await app.flows.resume(handle.id)
        await until(lambda: _has_run(shop, 4))
        await until_state(app, handle.id, "failed")
        app.flows.retry_sync(handle.id, from_step="Parse")
        await until(lambda: _has_run(shop, 6))
        await until_state(app, handle.id, "failed")
        shop.is_broken = False
        await app.flows.retry(handle.id, from_step="Download")
        assert await handle.result(timeout="30s") == "imported"
    tries = ["parse 1", "parse 2"]
    assert shop.ran == ["download", *tries, "parse 3", *tries, "download", "parse 1"]
    assert {step.state for step in (await app.flows.show(handle.id)).steps} == {"done"}


async def _has_run(shop: Shop, count: int) -> bool:
    return len(shop.ran) >= count


async def test_a_machine_at_its_first_step_is_shown_and_retried_from_it(app: App) -> None:
    broken = [True, False]

    @app.machine(retry=Retry(max_attempts=1))
    class Short(Machine[int]):
        class Only(Step):
            size: int

            async def run(self) -> Done[int]:
                if broken.pop(0):
                    raise ValueError("at first")
                return Done(self.size)

    async with working(app):
        handle = await Short.enqueue(Short.Only(3))
        with pytest.raises(JobEnded):
            await handle.result(timeout="30s")
        [step] = (await app.flows.show(handle.id)).steps
        assert (step.name, step.state, step.value) == ("Only", "failed", {"size": 3})
        await app.flows.retry(handle.id, from_step="Only")
        assert await handle.result(timeout="30s") == 3


@both_colours
async def test_a_waiting_flow_is_cancelled_and_only_a_failed_one_is_resumed(shop: Shop, app: App) -> None:
    async with working(app):
        handle = await shop.order.enqueue(7)
        await until_state(app, handle.id, "waiting")
        with pytest.raises(FlowNotFailed, match=f"flow {handle.id} is waiting"):
            await app.flows.resume(handle.id)
        with pytest.raises(FlowNotFailed, match="is waiting"):
            await app.flows.retry(handle.id, from_step="reserve")
        assert await app.flows.cancel(handle.id, reason="sold out") == "cancelled"
    assert await state_of(app, handle.id) == "cancelled"
    for verb in (app.flows.show_sync, app.flows.resume_sync, app.flows.retry_sync, app.flows.cancel_sync):
        with pytest.raises(JobNotFound):
            verb(9_999)
    with pytest.raises(InvalidInput, match="state is 'broken'"):
        await app.flows.list(state="broken")  # type: ignore[arg-type]  # refused at run time, too


async def test_a_failed_flow_names_the_step_that_failed_it(app: App) -> None:
    async def fail(word: str) -> None:
        raise ValueError(word)

    @app.flow(retry=Retry(max_attempts=1))
    async def once(flow: Flow) -> None:
        await flow.step("print", fail, "no paper")

    @app.flow(retry=Retry(max_attempts=1))
    async def twice(flow: Flow) -> None:
        await flow.step("print", fail, "no paper", retry=Retry(max_attempts=2, backoff="0s"))

    @app.flow(retry=Retry(max_attempts=1))
    async def caught(flow: Flow) -> None:
        try:
            await flow.step("print", fail, "no paper", retry=Retry(max_attempts=1))
        except StepFailed:
            raise KeyError("elsewhere") from None

    @app.machine(retry=Retry(max_attempts=1))
    class Import(Machine[None]):
        class Parse(Step):
            rows: int

            async def run(self) -> Done[None]:
                raise ValueError("no rows")

    handles = [await once.enqueue(), await twice.enqueue(), await caught.enqueue()]
    handles.append(await Import.enqueue(Import.Parse(1)))
    async with app.worker():
        for handle in handles:
            with pytest.raises(JobEnded):
                await handle.result("60s")
    records = [await app.flows.show(handle) for handle in handles]
    assert [record.failed_step for record in records] == ["print", "print", None, "Parse"]
