"""Flows whose code is edited while they are under way: nothing is done twice because it has a new name."""

from collections.abc import Callable
from typing import Any

import pytest

from flows.fast_worker import until_state, working
from holdfast import App, Flow, Job, Retry
from holdfast.storage.job_lookup import find

Body = Callable[[Flow, Callable[[str], str]], Any]


class Deploys:
    """One kind of flow, whose code each deploy replaces; `done` is what its steps have done, in order."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.done: list[str] = []

    def _do(self, what: str) -> str:
        self.done.append(what)
        return what

    def _define(self, app: App, body: Body) -> Job[[], Any]:
        @app.flow(name="order", retry=Retry(max_attempts=3, backoff="0s"))
        async def order(flow: Flow) -> Any:
            return await body(flow, self._do)

        return order

    async def start(self, body: Body, *, until: str = "waiting") -> int:
        async with App(self._dsn) as app:
            job = self._define(app, body)
            async with working(app):
                handle = await job.enqueue()
                await until_state(app, handle.id, until)
                return handle.id

    async def go_on(self, body: Body, job: int, *, until: str, event: str | None = "go") -> Any:
        """Its error or its result, once it has come to this state with this code."""
        async with App(self._dsn) as app:
            self._define(app, body)
            if event is not None:
                await app.emit(event)
            async with working(app):
                await until_state(app, job, until)
            [found] = await app.run(find(app.schema, job))
            return found.error or found.result

    async def resume(self, body: Body, job: int) -> Any:
        async with App(self._dsn) as app:
            await app.flows.resume(job)
        return await self.go_on(body, job, until="succeeded", event=None)


@pytest.fixture
def deploys(dsn: str, app: App) -> Deploys:  # the app's fixture looks at what is left in the database
    return Deploys(dsn)


async def original(flow: Flow, do: Callable[[str], str]) -> str:
    await flow.step("charge", do, "charged")
    await flow.wait_event("go")
    await flow.step("ship", do, "shipped")
    return "ok"


async def renamed(flow: Flow, do: Callable[[str], str]) -> str:
    await flow.step("charge card", do, "charged")
    await flow.wait_event("go")
    await flow.step("ship", do, "shipped")
    return "ok"


async def test_a_renamed_step_parks_the_flow_before_anything_runs_and_the_old_code_resumes_it(
    deploys: Deploys,
) -> None:
    job = await deploys.start(original)
    error = await deploys.go_on(renamed, job, until="failed")
    assert deploys.done == ["charged"]
    assert "flow_diverged" in error
    for told in ("charge → go", "Taken: charge card", "is_new=True", "flow.version"):
        assert told in error
    assert await deploys.resume(original, job) == '"ok"'
    assert deploys.done == ["charged", "shipped"]


async def test_a_step_that_is_said_to_be_new_runs_also_in_flows_that_have_been_further(
    deploys: Deploys,
) -> None:
    async def audited(flow: Flow, do: Callable[[str], str]) -> str:
        await flow.step("audit", do, "audited", is_new=True)
        return await original(flow, do)

    job = await deploys.start(original)
    assert await deploys.go_on(audited, job, until="succeeded") == '"ok"'
    assert deploys.done == ["charged", "audited", "shipped"]
    await deploys.start(audited)
    assert deploys.done[3:] == ["audited", "charged"]


async def test_a_step_behind_a_version_is_left_out_of_flows_that_have_been_further(deploys: Deploys) -> None:
    async def audited(flow: Flow, do: Callable[[str], str]) -> str:
        if await flow.version("with audit"):
            await flow.step("audit", do, "audited")
        return await original(flow, do)

    job = await deploys.start(original)
    fresh = await deploys.start(audited)
    assert await deploys.go_on(audited, job, until="succeeded") == '"ok"'
    assert await deploys.go_on(audited, fresh, until="succeeded") == '"ok"'
    assert deploys.done == ["charged", "audited", "charged", "shipped", "shipped"]


async def test_a_step_that_was_taken_out_parks_flows_that_have_done_it(deploys: Deploys) -> None:
    async def shorter(flow: Flow, do: Callable[[str], str]) -> str:
        await flow.wait_event("go")
        await flow.step("ship", do, "shipped")
        return "ok"

    job = await deploys.start(original)
    assert 'before \\"charge\\"' in await deploys.go_on(shorter, job, until="failed")
    assert deploys.done == ["charged"]
    assert await deploys.resume(original, job) == '"ok"'


@pytest.mark.parametrize("failures", ["raise", "cancel"])
async def test_a_step_that_is_renamed_in_a_branch_is_found_out_before_it_runs(
    deploys: Deploys, failures: Any
) -> None:
    def body(name: str) -> Body:
        async def branch(flow: Flow, do: Callable[[str], str], whose: str, charge: str) -> str:
            await flow.step(f"{charge} {whose}", do, f"charged {whose}")
            await flow.wait_event("go", key=whose)
            return await flow.step(f"ship {whose}", do, f"shipped {whose}")

        async def both(flow: Flow, do: Callable[[str], str]) -> Any:
            return await flow.gather(
                branch(flow, do, "ann", "charge"), branch(flow, do, "bob", name), failures=failures
            )

        return both

    job = await deploys.start(body("charge"))
    assert sorted(deploys.done) == ["charged ann", "charged bob"]
    assert "flow_diverged" in await deploys.go_on(body("bill"), job, until="failed")
    assert sorted(deploys.done)[:2] == ["charged ann", "charged bob"]
    assert not any(done == "charged bob" for done in deploys.done[2:])


async def test_a_child_that_is_renamed_while_it_runs_is_not_begun_twice(dsn: str, app: App) -> None:
    def define(to: App, name: str) -> Job[[], str]:
        @to.flow(name="parent")
        async def parent(flow: Flow) -> str:
            return await flow.call(child).named(name)

        @to.flow(name="child")
        async def child(flow: Flow) -> str:
            await flow.wait_event("go")
            return "shipped"

        return parent

    async with App(dsn) as before:
        job = define(before, "ship")
        async with working(before):
            handle = await job.enqueue()
            await until_state(before, handle.id + 1, "waiting")
    define(app, "ship it")
    await app.emit("go")
    async with working(app):
        await until_state(app, handle.id, "failed")
    [found] = await app.run(find(app.schema, handle.id))
    assert found.error is not None
    assert "flow_diverged" in found.error
    assert not await app.run(find(app.schema, handle.id + 2)), "no second child"


async def test_a_branch_that_was_cut_short_is_not_begun_again_by_the_next_run(deploys: Deploys) -> None:
    """The first failure ends the gather: what another branch was about to do is not done by a replay."""
    began: list[str] = []

    async def slow(flow: Flow, do: Callable[[str], str]) -> None:
        await flow.step("first", do, "first")
        await flow.wait_event("second")

    async def failing(flow: Flow) -> None:
        await flow.wait_event("go")

        def fail() -> None:
            began.append("failing")
            raise ValueError("no")

        await flow.step("fail", fail)

    async def cut(flow: Flow, do: Callable[[str], str]) -> str:
        try:
            await flow.gather(slow(flow, do), failing(flow), failures="cancel")
        except Exception:  # noqa: BLE001  # as a flow may
            await flow.step("clean up", do, "cleaned")
        await flow.wait_event("end")
        return "ok"

    job = await deploys.start(cut)
    await deploys.go_on(cut, job, until="waiting")
    async with App(deploys._dsn) as app:
        deploys._define(app, cut)
        async with working(app):
            await app.emit("end", keep="1h")
            await until_state(app, job, "succeeded")
    assert deploys.done == ["first", "cleaned"]
    assert began == ["failing"]
