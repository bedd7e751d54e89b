"""Random flows of steps, sleeps, events, children and branches, under random crashes, equal their model."""

import asyncio
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.interleaving.places import flaws
from flows.killing import lives
from holdfast import App, Flow, Job, Retry
from holdfast.errors import StepFailed

NEVER_MIND = Retry(max_attempts=100, backoff="0s")
WHATS = ("step", "transaction", "sleep", "event", "late", "child", "flow", "failing", "shaky", "now", "uuid")


@dataclass(frozen=True)
class Do:
    """One thing that a flow does; `name` is its own in the whole flow."""

    what: str
    name: str


@dataclass(frozen=True)
class Together:
    branches: tuple[tuple[Do, ...], ...]


Program = list[Do | Together]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    numbers = iter(range(1_000))

    def do(what: str) -> Do:
        return Do(what, f"{what} {next(numbers)}")

    def some(limit: int) -> tuple[Do, ...]:
        return tuple(do(what) for what in draw(st.lists(st.sampled_from(WHATS), min_size=1, max_size=limit)))

    program: Program = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            program += some(2)
        else:
            program.append(Together(tuple(some(2) for _ in range(draw(st.integers(1, 3))))))
    return program


def all_of(program: Program) -> list[Do]:
    return [
        do
        for each in program
        for do in ([each] if isinstance(each, Do) else [d for branch in each.branches for d in branch])
    ]


def modelled(do: Do) -> list[Any]:
    """What it gives in a flow that nothing ever disturbs."""
    match do.what:
        case "event":
            return [do.name, {"event": do.name}]
        case "sleep" | "now" | "uuid":
            return [do.name]
        case "late" | "failing":
            return [do.name, "no"]
        case _:
            return [do.name, do.name]


def effects_of(do: Do) -> list[str]:
    return [do.name] if do.what in ("transaction", "flow") else []


def flow_of(program: Program) -> Any:  # noqa: C901  # each kind of thing once
    """A function that defines the program's flow on an app."""

    def define(app: App) -> Job[[], Any]:  # noqa: C901  # as above
        shaken: set[str] = set()

        async def effect(conn: psycopg.AsyncConnection[Any], name: str) -> str:
            await conn.execute("insert into deed values (%s)", [name])
            return name

        def same(name: str) -> str:
            return name

        def failing() -> None:
            raise ValueError("no")

        def shaky(name: str) -> str:
            if name not in shaken:
                shaken.add(name)
                raise ConnectionError("once")
            return name

        @app.job(retry=NEVER_MIND)
        async def child(name: str) -> str:
            return name

        @app.flow(retry=NEVER_MIND)
        async def child_flow(flow: Flow, name: str) -> str:
            await flow.sleep("rest", "1ms")
            return await flow.transaction("effect", effect, name)

        async def done(flow: Flow, do: Do) -> list[Any]:  # noqa: C901, PLR0911, PLR0912  # as above
            match do.what:
                case "step":
                    return [do.name, await flow.step(do.name, same, do.name)]
                case "transaction":
                    return [do.name, await flow.transaction(do.name, effect, do.name)]
                case "sleep":
                    await flow.sleep(do.name, "1ms")
                case "event":
                    return [do.name, await flow.wait_event(do.name)]
                case "late":
                    try:
                        await flow.wait_event(do.name, timeout="1ms")
                    except TimeoutError:
                        return [do.name, "no"]
                case "child":
                    return [do.name, await flow.call(child, do.name).named(do.name)]
                case "flow":
                    return [do.name, await flow.call(child_flow, do.name).named(do.name)]
                case "failing":
                    try:
                        await flow.step(do.name, failing)
                    except StepFailed as error:
                        return [do.name, error.error["message"]]
                case "shaky":
                    given = await flow.step(
                        do.name, shaky, do.name, retry=Retry(max_attempts=5, backoff="1ms")
                    )
                    return [do.name, given]
                case "now":
                    await flow.now(do.name)
                case _:
                    await flow.uuid(do.name)
            return [do.name]

        async def in_turn(flow: Flow, branch: tuple[Do, ...]) -> list[Any]:
            return [await done(flow, do) for do in branch]

        @app.flow(retry=NEVER_MIND)
        async def random_flow(flow: Flow) -> list[Any]:
            given: list[Any] = []
            for each in program:
                if isinstance(each, Do):
                    given.append(await done(flow, each))
                else:
                    branches = await flow.gather(*(in_turn(flow, branch) for branch in each.branches))
                    given += [result for branch in branches for result in branch]
            return given

        return random_flow

    return define


@pytest.mark.timeout(300)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(program=programs(), deaths=st.lists(st.integers(1, 12), max_size=3))
def test_a_random_flow_under_random_crashes_equals_its_model(
    books: str, program: Program, deaths: list[int]
) -> None:
    events = tuple(do.name for do in all_of(program) if do.what == "event")
    result, kills = asyncio.run(lives(books, flow_of(program), deaths, events=events))
    written = [kill.written for kill in kills]
    assert result == [modelled(do) for do in all_of(program)], written
    with psycopg.connect(books) as connection:
        found = sorted(name for (name,) in connection.execute("select name from deed"))
        connection.execute("truncate deed")
        assert found == sorted(name for do in all_of(program) for name in effects_of(do)), written
        assert flaws(connection) == {}
        [(left,)] = connection.execute("select count(*) from holdfast.event")
        assert left == 0, "every event was taken"
