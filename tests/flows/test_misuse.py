"""Code that breaks the one rule of flows is found out, and cannot talk its way past that."""

from typing import Any

import pytest

from flows.running import until, working
from holdfast import App, Flow, Job
from holdfast.errors import JobEnded


async def ended(job: Job[..., Any], *args: Any) -> JobEnded:
    with pytest.raises(JobEnded) as found:
        await (await job.enqueue(*args)).result(timeout="30s")
    return found.value


async def test_calls_without_names_in_another_order_are_found_out_and_no_result_is_mixed_up(app: App) -> None:
    turns: list[str] = []

    @app.job
    async def charge(customer: str, note: str = "") -> str:
        return f"receipt for {customer}"

    @app.flow
    async def bill(flow: Flow) -> list[str]:
        who = ["Ann", "Bob"][:: 1 if not turns else -1]
        turns.append("turn")
        receipts = await flow.gather(*(flow.call(charge, name) for name in who))
        await flow.sleep("rest", "1ms")
        return receipts

    async with working(app):
        error = await ended(bill)
    assert error.error["code"] == "flow_diverged"
    assert (
        '"charge[0]" was recorded as charge({"customer": "Ann"}), and is charge({"customer":"Bob"}) now'
        in str(error.error["message"])
    )


async def test_a_call_under_one_name_with_other_arguments_is_found_out(app: App) -> None:
    turns: list[int] = []

    @app.job
    async def charge(cents: int) -> int:
        return cents

    @app.flow
    async def bill(flow: Flow) -> int:
        turns.append(1)
        charged = await flow.call(charge, len(turns)).named("the charge")
        await flow.sleep("rest", "1ms")
        return charged

    async with working(app):
        error = await ended(bill)
    assert error.error["code"] == "flow_diverged"


async def test_calls_that_mean_the_same_are_the_same(app: App) -> None:
    """Sets have no order, and a default may be given or not."""
    many = [f"tag {number}" for number in range(50)]
    turned = many[::-1]
    turns: list[int] = []

    @app.job
    async def mark(tags: set[str], weight: float = 1.0) -> int:
        return len(tags)

    @app.flow
    async def marking(flow: Flow) -> list[int]:
        turns.append(1)
        if len(turns) == 1:
            calls = [flow.call(mark, set(many)), flow.call(mark, set(), 1)]
        else:
            calls = [flow.call(mark, set(turned), 1.0), flow.call(mark, set())]
        counts = await flow.gather(*calls)
        await flow.sleep("rest", "1ms")
        return counts

    async with working(app):
        assert await (await marking.enqueue()).result(timeout="30s") == [50, 0]
    assert len(turns) >= 2


async def test_a_named_call_is_known_by_its_name_to_code_that_has_changed(app: App, dsn: str) -> None:
    async def charge(cents: int) -> int:
        return cents

    async with App(dsn) as before:
        charged = before.job(charge)

        @before.flow(name="bill")
        async def old(flow: Flow) -> int:
            cents = await flow.call(charged, 1).named("the charge")
            await flow.wait_event("go")
            return cents

        async with working(before):
            handle = await old.enqueue()
            await until(lambda: waits_for(before, handle.id, "go"))
    charged = app.job(charge)

    @app.flow(name="bill")
    async def new(flow: Flow) -> int:
        cents = await flow.call(charged, 2).named("the charge")
        await flow.wait_event("go")
        return cents

    await app.emit("go")
    async with working(app):
        assert await new.handle(handle.id).result(timeout="30s") == 1


async def waits_for(app: App, flow: int, event: str) -> bool:
    return any(step.event == event for step in (await app.flows.show(flow)).waits)
