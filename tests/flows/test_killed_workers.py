"""A worker is killed after every write of a flow, in turn; the effects are those of an undisturbed run."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from flows.killed_workers import lives
from holdfast import App, Context, Flow, Job, Retry
from storage.interleaving.table_invariants import flaws

NEVER_MIND = Retry(max_attempts=100, backoff="0s")


async def effect(conn: psycopg.AsyncConnection[Any], name: str) -> str:
    await conn.execute("insert into deed values (%s)", [name])
    return name


def steps(app: App) -> Job[[], Any]:
    def plain(number: int) -> int:
        return number + 1

    @app.flow(retry=NEVER_MIND)
    async def flow_of_steps(flow: Flow) -> list[Any]:
        one = await flow.step("one", plain, 0)
        await flow.transaction("first", effect, "first")
        two = await flow.step("two", plain, one)
        async with flow.transaction("second") as conn:
            if conn is not None:
                await effect(conn, "second")
        return [one, two, await flow.transaction("third", effect, "third")]

    return flow_of_steps


def sleeping(app: App) -> Job[[], Any]:
    @app.flow(retry=NEVER_MIND)
    async def flow_that_sleeps(flow: Flow) -> None:
        await flow.transaction("before", effect, "before")
        await flow.sleep("rest", "5ms")
        await flow.transaction("after", effect, "after")

    return flow_that_sleeps


def retrying(app: App) -> Job[[], Any]:
    @app.flow(retry=NEVER_MIND)
    async def flow_that_retries(flow: Flow) -> str:
        async def shaky() -> str:
            if not getattr(app, "was_shaken", False):
                app.was_shaken = True  # type: ignore[attr-defined]  # the test's own memory
                raise ConnectionError("once")
            return "steady"

        await flow.transaction("before", effect, "before")
        given = await flow.step("shaky", shaky, retry=Retry(max_attempts=3, backoff="1ms"))
        await flow.transaction("after", effect, "after")
        return given

    return flow_that_retries


def waiting(app: App) -> Job[[], Any]:
    @app.flow(retry=NEVER_MIND)
    async def flow_that_waits(flow: Flow) -> list[Any]:
        given = [await flow.wait_event("first"), await flow.wait_event("second")]
        await flow.transaction("waited", effect, "waited")
        return given

    return flow_that_waits


def timing_out(app: App) -> Job[[], Any]:
    @app.flow(retry=NEVER_MIND)
    async def flow_that_is_late(flow: Flow) -> str:
        try:
            await flow.wait_event("never", timeout="5ms")
        except TimeoutError:
            return await flow.transaction("late", effect, "late")
        return "came"

    return flow_that_is_late


def calling(app: App) -> Job[[], Any]:
    @app.job(retry=NEVER_MIND)
    async def child(ctx: Context, name: str) -> None:
        async with ctx.transaction() as conn:
            await effect(conn, name)

    @app.flow(retry=NEVER_MIND)
    async def grandchild(flow: Flow) -> str:
        await flow.sleep("rest", "2ms")
        return await flow.transaction("grandchild", effect, "grandchild")

    @app.flow(retry=NEVER_MIND)
    async def flow_that_calls(flow: Flow) -> list[Any]:
        alone = await flow.call(grandchild)
        await flow.gather(*(flow.call(child, f"child {number}") for number in range(2)))
        return [alone, await flow.transaction("parent", effect, "parent")]

    return flow_that_calls


def awaiting(app: App) -> Job[[], Any]:
    @app.job(retry=NEVER_MIND)
    async def other() -> str:
        return "other"

    async def begin() -> int:
        return (await other.enqueue()).id

    @app.flow(retry=NEVER_MIND)
    async def flow_that_awaits(flow: Flow) -> str:
        given = await flow.wait_job(await flow.step("begin", begin), type=str)
        await flow.transaction("awaited", effect, "awaited")
        return given

    return flow_that_awaits


def branching(app: App) -> Job[[], Any]:
    @app.job(retry=NEVER_MIND)
    async def child() -> str:
        return "child"

    async def branch(flow: Flow, name: str) -> str:
        await flow.transaction(name, effect, name)
        await flow.sleep(f"{name} rests", "2ms")
        return await flow.transaction(f"{name} again", effect, f"{name} again")

    @app.flow(retry=NEVER_MIND)
    async def flow_with_branches(flow: Flow) -> list[Any]:
        return await flow.gather(
            branch(flow, "a"), branch(flow, "b"), flow.wait_event("first"), flow.call(child)
        )

    return flow_with_branches


FLOWS: dict[str, tuple[Callable[[App], Job[[], Any]], tuple[str, ...]]] = {
    "steps and transactions": (steps, ()),
    "a sleep": (sleeping, ()),
    "a step's retry": (retrying, ()),
    "events": (waiting, ("first", "second")),
    "a timeout": (timing_out, ()),
    "children": (calling, ()),
    "another job": (awaiting, ()),
    "branches": (branching, ("first",)),
}


@pytest.mark.requirement("S1.23", "S1.24")
@pytest.mark.parametrize("name", FLOWS)
async def test_a_worker_killed_after_any_write_leaves_the_effects_of_an_undisturbed_run(
    name: str, books: str
) -> None:
    define, events = FLOWS[name]
    result, [undisturbed] = await lives(books, define, [], events=events)
    expected = effects(books)
    assert len(undisturbed.written) > 2
    assert expected
    for death in range(1, len(undisturbed.written) + 1):
        again, kills = await lives(books, define, [death], events=events)
        assert again == result, f"killed after {kills[0].written}"
        assert effects(books) == expected, f"killed after {kills[0].written}"


async def test_a_flow_survives_one_death_after_the_other(books: str) -> None:
    await lives(books, calling, [1, 2, 3, 1, 2, 3, 1, 2, 3, 4])
    assert effects(books) == ["child 0", "child 1", "grandchild", "parent"]


def effects(books: str) -> list[str]:
    """Those since the last question."""
    with psycopg.connect(books) as connection:
        assert flaws(connection) == {}
        names = [name for (name,) in connection.execute("select name from deed order by name")]
        connection.execute("truncate deed")
        return names
