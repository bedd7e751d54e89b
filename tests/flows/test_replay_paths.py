"""A replay that takes another path than the one recorded is found out; names and types over deploys."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from flows.fast_worker import state_of, until_state, working
from holdfast import App, Flow, Job, Retry
from holdfast.domain.flow_path import MAIN, Path, Recorded
from holdfast.errors import FlowDiverged, JobEnded, StepNameTaken
from holdfast.postgres.statement import Statement
from holdfast.storage.job_lookup import find


def recorded(*names: str, code: int | None = 1, kind: str = "step", is_done: bool = True) -> list[Recorded]:
    return [
        Recorded(1, name, kind, place, code, is_done, 0, None, None, None, timedelta())
        for place, name in enumerate(names, 1)
    ]


def walk(path: Path, *names: str, lane: str | None = MAIN) -> None:
    for name in names:
        path.arrive(name, "step", lane=lane)


def test_code_that_comes_to_something_new_before_what_was_done_is_found_out_at_once() -> None:
    path = Path(recorded("a", "b"))
    with pytest.raises(FlowDiverged, match='reached "c", which it has not done, before "b", which') as found:
        walk(path, "a", "c")
    assert found.value.recorded == ["a", "b"]
    assert found.value.taken == ["a", "c"]
    assert "is_new=True" in str(found.value)


def test_what_is_done_may_be_moved_and_new_steps_follow_it() -> None:
    path = Path(recorded("a", "b"))
    walk(path, "b", "a", "new")
    path.end()


def test_a_step_that_is_said_to_be_new_may_be_in_front_of_what_was_done() -> None:
    path = Path(recorded("a", "b"))
    path.arrive("new", "step", is_new=True)
    walk(path, "a", "b")
    path.end()


def test_code_that_ends_without_what_was_done_is_found_out() -> None:
    path = Path(recorded("a", "b"))
    walk(path, "b")
    with pytest.raises(FlowDiverged, match='without "a"'):
        path.end()


def test_a_child_that_was_begun_is_not_passed_by() -> None:
    with pytest.raises(FlowDiverged, match='before "ship"'):
        walk(Path(recorded("ship", kind="call", is_done=False)), "ship it")


def test_the_word_of_a_version_may_be_taken_out_of_the_code() -> None:
    path = Path(recorded("change", kind="version"))
    walk(path, "a")
    path.end()


def beside(branches: dict[str, str]) -> list[Recorded]:
    """Names, and the branches that they were done in."""
    return [
        Recorded(1, name, "step", None, 1, True, 0, None, None, None, None, branch=branch)
        for name, branch in branches.items()
    ]


def test_a_branch_is_found_out_by_its_own_path_and_not_by_those_beside_it() -> None:
    path = Path(beside({"a": "/1.0", "b": "/1.1"}))
    walk(path, "a", "a2", lane="/1.0")
    with pytest.raises(FlowDiverged, match='reached "other b", which it has not done, before "b"'):
        walk(path, "other b", lane="/1.1")


def test_a_branch_is_found_out_by_what_follows_its_gather() -> None:
    for followed in ("/2.0", "/1.0/1.0", MAIN):
        with pytest.raises(FlowDiverged, match='before "later"'):
            walk(Path(beside({"later": followed})), "new", lane="/1.0")


def test_the_main_path_is_found_out_by_what_its_branches_have_done() -> None:
    with pytest.raises(FlowDiverged, match='before "a"'):
        walk(Path(beside({"a": "/1.10"})), "new")


def test_what_a_task_of_its_own_has_done_is_missed_only_at_the_end() -> None:
    path = Path(recorded("a") + beside({"b": None}))  # type: ignore[dict-item]  # of no branch
    walk(path, "a", "new")
    walk(path, "beside", lane=None)
    with pytest.raises(FlowDiverged, match='without "b"'):
        path.end()


def test_a_name_that_was_another_kind_of_thing_is_found_out() -> None:
    with pytest.raises(FlowDiverged, match='"a" was recorded as a sleep, and is a step now'):
        walk(Path(recorded("a", kind="sleep")), "a")


def test_a_name_that_is_used_twice_is_an_error_that_says_so() -> None:
    with pytest.raises(StepNameTaken, match=r'two steps of this flow are called "a".*key='):
        walk(Path([]), "a", "a")


def test_what_is_open_may_be_passed_by() -> None:
    """A step that was to be tried again, or a wait: nothing of it has been done."""
    path = Path(recorded("a", is_done=False))
    walk(path, "b")
    path.end()


async def ended(app: App, job: Job[..., Any], *args: Any) -> JobEnded:
    handle = await job.enqueue(*args)
    with pytest.raises(JobEnded) as found:
        await handle.result(timeout="30s")
    return found.value


async def test_a_name_used_twice_fails_the_flow_at_once(app: App) -> None:
    @app.flow
    async def twice(flow: Flow) -> None:
        await flow.step("a", int)
        await flow.step("a", int)

    async with working(app):
        error = await ended(app, twice)
    assert "two steps of this flow are called" in str(error)


async def test_a_flow_that_decides_by_chance_is_parked_with_both_paths(app: App) -> None:
    turns: list[str] = []

    @app.flow(retry=Retry(max_attempts=5, backoff="0s"))
    async def fickle(flow: Flow) -> None:
        turns.append("turn")
        await flow.step(f"turn {len(turns)}", int)
        await flow.sleep(f"rest {len(turns)}", "1ms")

    async with working(app):
        error = await ended(app, fickle)
    assert len(turns) == 2
    assert error.error["code"] == "flow_diverged"
    assert "Recorded: turn 1. Taken: turn 2" in str(error.error["message"])


@dataclass
class Old:
    name: str


@dataclass
class New:
    name: str
    since: int


async def test_a_kept_value_that_no_longer_fits_its_type_parks_the_flow_and_is_not_lost(
    app: App, dsn: str
) -> None:
    def old() -> Old:
        return Old("ann")

    def new() -> New:
        return New("ann", 1)

    async with App(dsn) as before:
        define(before, old)
        async with working(before):
            handle = await before_job(before).enqueue()
            await until_state(before, handle.id, "waiting")
    define(app, new)
    await app.emit("go")
    async with working(app):
        # Another version of the code may know it: tried again for ten minutes, then dead.
        await until_state(app, handle.id, "scheduled")
        await app.run(_due_now(handle.id))
    async with App(dsn) as restored:
        define(restored, old)
        async with working(restored):
            await until_state(restored, handle.id, "succeeded")


def define(app: App, function: Callable[[], Any]) -> None:
    @app.flow(name="typed")
    async def typed(flow: Flow) -> None:
        await flow.step("who", function)
        await flow.wait_event("go")


def before_job(app: App) -> Job[[], None]:
    return Job(app, app._job_writer, app.declared_kinds["typed"])


def _due_now(job: int) -> Statement[int]:
    return Statement(
        "due_now",
        "update holdfast.scheduled set run_at = now() where job = %(job)s::bigint returning job",
        {"job": job},
        int,
    )


async def test_a_flow_under_way_keeps_its_path_over_a_change_and_a_new_one_takes_the_new(
    app: App, dsn: str
) -> None:
    async with App(dsn) as before:

        @before.flow(name="changing")
        async def old(flow: Flow) -> str:
            await flow.step("old", int)
            await flow.wait_event("go")
            return "old"

        async with working(before):
            under_way = await old.enqueue()
            await until_state(before, under_way.id, "waiting")

    @app.flow(name="changing")
    async def new(flow: Flow) -> str:
        is_new = await flow.version("change")
        await flow.step("new" if is_new else "old", int)
        await flow.wait_event("go")
        return "new" if is_new else "old"

    async with working(app):
        fresh = await new.enqueue()
        await until_state(app, fresh.id, "waiting")
        await app.emit("go")
        for job, path in ((under_way.id, "old"), (fresh.id, "new")):
            await until_state(app, job, "succeeded")
            [found] = await app.run(find(app.schema, job))
            assert found.result == f'"{path}"'


async def test_what_a_step_gives_is_refused_at_once_if_it_would_come_back_as_something_else(app: App) -> None:
    def unsaid():  # type: ignore[no-untyped-def]  # noqa: ANN202  # the mistake
        return Old("ann")

    @app.flow
    async def careless(flow: Flow) -> None:
        await flow.step("who", unsaid)

    async with working(app):
        error = await ended(app, careless)
    assert "Annotate what the function returns" in str(error)
    assert await state_of(app, error.job) == "failed"
