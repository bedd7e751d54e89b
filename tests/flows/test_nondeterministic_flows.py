"""Code that breaks the one rule of flows is found out, and cannot talk its way past that."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from flows.fast_worker import working
from holdfast import App, Flow, Job, Retry
from holdfast.errors import JobEnded
from support.waiting import until


@dataclass
class Stock:
    shelf: int


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
        '"charge[0]" was recorded as charge({"customer":"Ann"}), and is charge({"customer":"Bob"}) now'
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


async def test_a_divergence_that_the_flow_catches_ends_it_all_the_same_and_lets_nothing_more_be_done(
    app: App,
) -> None:
    turns: list[int] = []
    done: list[str] = []

    @app.flow(retry=Retry(max_attempts=5, backoff="0s"))
    async def stubborn(flow: Flow, after: str) -> str:
        turns.append(1)
        try:
            await flow.step(f"turn {len(turns)}", int)
        except Exception:  # noqa: BLE001  # the mistake
            if after == "raise":
                raise ValueError("something else") from None
            if after == "go on":
                await flow.step("more", done.append, "more")
            return "well"
        await flow.sleep("rest", "1ms")
        return "never"

    async with working(app):
        for after in ("return", "raise", "go on"):
            turns.clear()
            error = await ended(stubborn, after)
            assert (error.state, error.error["code"]) == ("failed", "flow_diverged")
            assert "Recorded: turn 1. Taken: turn 2" in str(error.error["message"])
    assert done == []


async def test_a_divergence_in_one_branch_ends_the_flow_although_others_wait(app: App) -> None:
    turns: list[int] = []

    async def fickle(flow: Flow) -> None:
        if len(turns) == 1:
            await flow.step("what", int)
        else:
            await flow.sleep("what", "1h")

    @app.flow
    async def both(flow: Flow) -> str:
        turns.append(1)
        await flow.gather(fickle(flow), flow.wait_event("go", timeout="50ms"), failures="return")
        return "well"

    async with working(app):
        error = await ended(both)
    assert error.error["code"] == "flow_diverged"


async def test_a_name_that_was_used_twice_fails_the_flow_although_it_catches_that(app: App) -> None:
    @app.flow
    async def twice(flow: Flow) -> str:
        for _ in range(2):
            with suppress(Exception):
                await flow.step("a", int)
        return "well"

    async with working(app):
        error = await ended(twice)
    assert error.error["type"] == "holdfast.errors.StepNameTaken"


async def test_what_a_flow_does_is_refused_inside_of_a_step(app: App) -> None:
    tries: list[str] = []

    @app.job
    async def child() -> None:
        tries.append("child")

    doing: dict[str, Callable[[Flow], Awaitable[Any]]] = {
        "sleep": lambda flow: flow.sleep("inner", "1ms"),
        "event": lambda flow: flow.wait_event("inner"),
        "step": lambda flow: flow.step("inner", int),
        "task": lambda flow: asyncio.create_task(flow.uuid("inner")),
        "call": lambda flow: flow.gather(flow.call(child).named("inner")),
    }

    async def inside(flow: Flow, what: str) -> None:
        tries.append(what)
        try:
            await doing[what](flow)
        finally:
            tries.append("out")

    async def booked(conn: Any, flow: Flow, what: str) -> None:
        await inside(flow, what)

    @app.flow(retry=Retry(max_attempts=5, backoff="0s"))
    async def nesting(flow: Flow, what: str, where: str) -> str:
        if where == "step":
            await flow.step("outer", inside, flow, what, retry=Retry(max_attempts=5, backoff="0s"))
        elif where == "function":
            await flow.transaction("outer", booked, flow, what)
        else:
            async with flow.transaction("outer"):
                await inside(flow, what)
        return "well"

    async with working(app):
        for what in doing:
            for where in ("step", "function", "block"):
                tries.clear()
                error = await ended(nesting, what, where)
                assert tries == [what, "out"]
                assert '"inner" is inside of "outer"' in str(error.error["message"])


async def test_what_is_no_function_and_no_job_is_refused_with_what_to_give_instead(app: App) -> None:
    async def charge(cents: int) -> int:
        return cents

    @app.job
    async def mail() -> None: ...

    wrong: dict[str, Callable[[Any], Any]] = {
        'step "x" is given charge(…), which is already called': lambda flow: flow.step("x", charge(3)),
        'transaction "x" is given charge(…)': lambda flow: flow.transaction("x", charge(3)),
        'step "x" is given <Job mail>: give a function': lambda flow: flow.step("x", mail),
        "charge is not a job: write @app.job above it": lambda flow: flow.call(charge, 3),
        "give flow.call the job, and its arguments": lambda flow: flow.call(charge(3)),
        "flow.call(job, …).named('letter')": lambda flow: flow.call("letter", mail),
        "cannot wait for itself": lambda flow: flow.wait_job(flow.job.id),
    }

    @app.flow(retry=Retry(max_attempts=5, backoff="0s"))
    async def mistaken(flow: Flow, what: str) -> str:
        await wrong[what](flow)
        return "well"

    async with working(app):
        for what in wrong:
            error = (await ended(mistaken, what)).error
            assert (what in str(error["message"]), error["type"]) == (True, "holdfast.errors.InvalidInput")


async def test_a_step_does_not_hold_up_what_runs_beside_it_or_comes_after_it(app: App) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        began.set()
        await go_on.wait()
        return "slow"

    async def beside(flow: Flow) -> str:
        await began.wait()
        await flow.uuid("beside")
        go_on.set()
        return "beside"

    @app.flow
    async def both(flow: Flow) -> list[str]:
        given = await flow.gather(flow.step("slow", slow), beside(flow))
        async with flow.transaction("book"):
            pass
        await flow.sleep("after", "1ms")
        return list(given)

    async with working(app):
        assert await (await both.enqueue()).result(timeout="30s") == ["slow", "beside"]


async def test_a_job_with_a_unique_key_is_awaited_by_the_id_that_a_step_gave_as_the_refusal_of_a_call_advises(
    app: App,
) -> None:
    @app.job
    async def stock(shelf: int) -> Stock:
        return Stock(shelf)

    async def begin(shelf: int) -> int:
        return (await stock.using(unique=True).enqueue(shelf)).id

    @app.flow
    async def looking(flow: Flow) -> list[Any]:
        job = await flow.step("begin", begin, 7)
        typed: Stock = await flow.wait_job(job, type=Stock)
        await flow.sleep("rest", "1ms")
        return [typed.shelf, await flow.wait_job(job, name="again")]

    @app.flow
    async def calling(flow: Flow) -> None:
        await flow.call(stock.using(unique=True), 7)

    async with working(app):
        assert await (await looking.enqueue()).result(timeout="60s") == [7, {"shelf": 7}]
        assert "flow.wait_job(id, type=…)" in str((await ended(calling)).error["message"])


async def test_a_wait_for_a_job_is_refused_for_what_is_none_and_found_out_for_another_one(app: App) -> None:
    turns: list[int] = []

    @app.job
    async def other() -> None: ...

    @app.flow
    async def waiting(flow: Flow, jobs: list[int]) -> None:
        turns.append(1)
        await flow.wait_job(jobs[len(turns) - 1], name="it")
        await flow.sleep("rest", "1ms")

    async with working(app):
        assert "not a job id" in str((await ended(waiting, [2**63])).error["message"])
        turns.clear()
        first, second = [(await other.enqueue()).id for _ in range(2)]
        error = await ended(waiting, [first, second])
    assert error.error["code"] == "flow_diverged"
    assert f"was recorded as job {first}, and is job {second} now" in str(error.error["message"])


async def test_a_step_with_a_yield_fails_instead_of_running_nothing(app: App) -> None:
    def count() -> Iterator[int]:
        yield 1

    @app.flow(retry=Retry(max_attempts=1))
    async def counting(flow: Flow) -> None:
        await flow.step("count", count)

    async with working(app):
        error = await ended(counting)
    assert "of which nothing has run" in str(error.error["message"])


@pytest.mark.parametrize("between", [0, 1, 3])
async def test_a_wait_that_closes_a_cycle_is_refused_with_the_chain(app: App, between: int) -> None:
    once = Retry(max_attempts=1)

    @app.flow(retry=once)
    async def link(flow: Flow, top: int, left: int) -> None:
        if left == 0:
            await flow.wait_job(top)
        else:
            await flow.call(link, top, left - 1)

    @app.flow(retry=once)
    async def begin(flow: Flow) -> None:
        await flow.call(link, flow.job.id, between)

    handle = await begin.enqueue()
    async with working(app):
        with pytest.raises(JobEnded) as ended:
            await handle.result(timeout="60s")
    chain = re.escape(f"which waits for it ({handle.id + between + 1} → {handle.id} → {handle.id + 1}")
    assert re.search(rf"cannot wait for job {handle.id}, {chain}", str(ended.value.error["message"]))


async def test_two_flows_may_wait_for_the_same_job(app: App) -> None:
    @app.job
    async def pay() -> int:
        return 7

    @app.flow
    async def order(flow: Flow, job: int) -> int:
        return await flow.wait_job(job, type=int)

    paid = await pay.using(delay="1s").enqueue()
    async with working(app):
        orders = [await order.enqueue(paid.id) for _ in range(2)]
        assert [await each.result(timeout="60s") for each in orders] == [7, 7]
