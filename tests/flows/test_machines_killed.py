"""A machine whose worker is killed after any of its writes, and one whose run was taken away."""

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest

from flows.flow_statements import again, begun
from flows.killed_workers import lives
from holdfast import App, Done, Handle, Machine, Next, Retry, Step
from holdfast.domain.retention import Retention
from holdfast.storage import machines, operators
from holdfast.storage.flows import Fence
from holdfast.storage.machines import Move
from storage.interleaving.prepared_jobs import MINUTE, lost
from storage.interleaving.session import Session
from storage.interleaving.stepped_sessions import Sessions
from support.engine import SCHEMA


@dataclass
class Started:
    """Begun at one step, as a job without arguments would be."""

    machine: type[Machine[Any]]
    step: Step

    async def enqueue(self) -> Handle[Any]:
        return await self.machine.enqueue(self.step)


async def test_a_machine_whose_worker_is_killed_after_any_write_takes_the_same_way(dsn: str) -> None:
    ran: list[str] = []

    def define(app: App) -> Any:
        @app.machine(retry=Retry(max_attempts=100, backoff="0s"))
        class Walk(Machine[list[str]]):
            class First(Step):
                async def run(self) -> Next:
                    ran.append("first")
                    return Next(Walk.Second(["first"]))

            class Second(Step):
                been: list[str]

                def run(self) -> Next:
                    ran.append("second")
                    return Next(Walk.Third([*self.been, "second"]), after="5ms")

            class Third(Step):
                been: list[str]

                async def run(self) -> Done[list[str]]:
                    ran.append("third")
                    return Done([*self.been, "third"])

        return Started(Walk, Walk.First())

    way = ["first", "second", "third"]
    result, [undisturbed] = await lives(dsn, define, [])
    assert (result, ran) == (way, way)
    assert undisturbed.written.count("machine_next") == 2
    for death in range(1, len(undisturbed.written) + 1):
        ran.clear()
        result, kills = await lives(dsn, define, [death])
        # The step that was under way may run again; one that was left never does.
        assert (result, [step for step, _ in groupby(ran)]) == (way, way), f"killed after {kills[0].written}"
        assert len(ran) <= len(way) + 1


def moves(session: Session, fence: Fence, *, place: int = 1) -> str:
    move = Move(fence, f"Step {place}", place, "{}", f"Step {place + 1}", '{"rows": 7}')
    [moved] = session.run(machines.move(SCHEMA, [move], now=session.now))
    return moved.answer


@pytest.mark.requirement("S1.23", "S1.27", "S1.28", "S1.29")
def test_a_run_that_was_taken_away_cannot_move_its_machine_on(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    stale = begun(session)
    lost(session, stale.worker)
    session.rescue()
    session.pass_time(MINUTE)
    session.promote()
    fresh = again(session, stale.job)
    assert moves(session, stale) == "lost"
    assert session.run(machines.load_steps(SCHEMA, [stale.job])) == []
    assert moves(session, fresh) == "moved"
    assert moves(session, fresh) == "lost"
    [at] = session.run(machines.load_steps(SCHEMA, [stale.job]))
    assert (at.name, at.place, at.fields) == ("Step 2", 2, '{"rows": 7}')


def test_a_machine_that_is_to_be_cancelled_does_not_move_on(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    run = begun(session)
    assert session.hold(operators.cancel(SCHEMA, [run.job], retention=Retention())) == {run.job: "requested"}
    assert moves(session, run) == "stop"
    assert session.state(run.job) == "running"
    assert session.run(machines.load_steps(SCHEMA, [run.job])) == []


def test_a_step_that_a_machine_comes_to_again_keeps_one_row(sessions: Sessions) -> None:
    [session] = sessions.open_many(1)
    run = begun(session)
    for place in range(1, 4):
        move = Move(run, "Poll", place, "{}", "Poll", f'{{"turn": {place}}}')
        [moved] = session.run(machines.move(SCHEMA, [move], now=session.now))
        assert moved.answer == "moved"
        run = again(session, run.job)
    [at] = session.run(machines.load_steps(SCHEMA, [run.job]))
    assert (at.name, at.place, at.fields) == ("Poll", 4, '{"turn": 3}')
