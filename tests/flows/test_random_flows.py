"""Random flows of steps, sleeps, events, children and branches, under random crashes, equal their model."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.fast_worker import state_of, until_state, working
from flows.killed_workers import lives
from holdfast import App, Flow, Job, Retry
from holdfast.errors import StepFailed
from storage.interleaving.table_invariants import flaws

pytestmark = pytest.mark.machine  # takes its time

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


@dataclass(frozen=True)
class Edit:
    """How a deploy changes a flow's code. `is_new`: what it adds says so."""

    how: str
    at: int
    to: int
    is_new: bool


Names = list[tuple[str, bool]]
"""The steps of a flow in their order, each with whether it says that it is new."""

EDITS = st.builds(
    Edit,
    how=st.sampled_from(("rename", "insert", "remove", "move")),
    at=st.integers(0, 5),
    to=st.integers(0, 5),
    is_new=st.booleans(),
)


def edited(names: Names, edits: list[Edit]) -> Names:
    names = list(names)
    for number, edit in enumerate(edits):
        at, to = edit.at % (len(names) + 1), edit.to % (len(names) + 1)
        if edit.how == "insert":
            names.insert(at, (f"added {number}", edit.is_new))
        elif at < len(names):
            name, is_new = names.pop(at)
            if edit.how == "rename":
                names.insert(at, (f"{name}'", is_new))
            elif edit.how == "move":
                names.insert(to, (name, is_new))
    return names


def runs_twice(done: list[str]) -> list[str]:
    """Effects that were done again, under whatever name: an edit only adds marks to a name."""
    return [name for name, count in Counter(name.rstrip("'") for name in done).items() if count > 1]


class Deployed:
    """One flow whose code is replaced, and what its steps have done."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.done: list[str] = []
        self.job = 0

    async def runs(self, names: Names, stop: int, *states: str, event: str | None = None) -> str | None:
        """Until it has come to one of these states with this code, which waits after `stop` steps."""
        async with App(self._dsn) as app:

            @app.flow(name="edited")
            async def flow_now(flow: Flow) -> list[str]:
                for number, (name, is_new) in enumerate(names):
                    if number == stop:
                        await flow.wait_event("go")
                    await flow.step(name, self.done.append, name, is_new=is_new)
                if stop >= len(names):
                    await flow.wait_event("go")
                return [name for name, _ in names]

            if not self.job:
                self.job = (await flow_now.enqueue()).id
            elif await state_of(app, self.job) == "failed":
                await app.flows.resume(self.job)
            if event is not None:
                await app.emit(event)
            async with working(app):
                await until_state(app, self.job, *states)
            return await state_of(app, self.job)


@pytest.mark.timeout(300)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(
    count=st.integers(1, 5),
    stop=st.integers(0, 5),
    edits=st.lists(EDITS, min_size=1, max_size=3),
    stop_now=st.integers(0, 8),
)
def test_a_flow_whose_code_is_edited_does_nothing_twice_and_the_old_code_finishes_it(
    dsn: str, count: int, stop: int, edits: list[Edit], stop_now: int
) -> None:
    """It waits somewhere, is edited, and goes on: to its end, or it is parked with nothing done that it has
    done before; then the deploy is rolled back.
    """
    before: Names = [(f"step {number}", False) for number in range(count)]
    after = edited(before, edits)
    stop = min(stop, count)

    async def story() -> tuple[str | None, list[str], list[str]]:
        deployed = Deployed(dsn)
        await deployed.runs(before, stop, "waiting")
        assert deployed.done == [name for name, _ in before[:stop]]
        state = await deployed.runs(after, stop_now, "succeeded", "failed", event="go")
        meanwhile = list(deployed.done)
        if state == "failed":
            # The old code does not have what the edited code has added as new: rolled back, it is parked.
            is_added = any(is_new and name in meanwhile for name, is_new in after)
            if not is_added:
                state = await deployed.runs(before, stop, "succeeded", "failed")
        return state, meanwhile, deployed.done

    state, meanwhile, done = asyncio.run(story())
    assert runs_twice(meanwhile) == []
    assert runs_twice(done) == []
    if state == "failed":
        assert any(is_new and name in meanwhile for name, is_new in after), "rolled back, it goes on"
    with psycopg.connect(dsn) as connection:
        assert flaws(connection) == {}
        connection.execute("truncate holdfast.event")
