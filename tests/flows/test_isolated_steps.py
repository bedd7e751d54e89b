"""Steps in child processes: killed by a timeout, and their death is a failed try, not a dead worker."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from flows.isolated_steps import die, sleep_for_ever, unnamed, where
from holdfast import App, Flow, Retry
from holdfast.domain.backoff import Fixed
from holdfast.errors import JobEnded, StepFailed
from worker.handler_runs import is_alive

SOON = Fixed(timedelta(milliseconds=10))


async def test_a_step_runs_in_another_process_and_is_kept(app: App) -> None:
    @app.flow
    async def apart(flow: Flow) -> list[int]:
        first = await flow.step("where", where, 40, 2, isolate="process")
        await flow.sleep("replay", "10ms")
        return first

    async with app.worker():
        pid, number = await (await apart.enqueue()).result(timeout="60s")
    assert number == 42
    assert pid != os.getpid()


async def test_the_death_of_a_steps_process_is_a_failed_try(app: App, tmp_path: Path) -> None:
    @app.flow
    async def fragile(flow: Flow, once: str) -> str:
        retry = Retry(max_attempts=2, backoff=SOON)
        return await flow.step("die", die, once, retry=retry, isolate="process")

    async with app.worker():
        assert await (await fragile.enqueue(str(tmp_path / "once"))).result(timeout="60s") == "survived"


async def test_a_timeout_kills_the_process_of_a_step(app: App, tmp_path: Path) -> None:
    note = tmp_path / "note"

    @app.flow
    async def slow(flow: Flow) -> str:
        try:
            await flow.step("sleep", sleep_for_ever, str(note), timeout="3s", isolate="process")
        except StepFailed as failed:
            return str(failed.error["code"])
        return "woke up"

    async with app.worker():
        assert await (await slow.enqueue()).result(timeout="60s") == "timeout"
        assert not is_alive(int(note.read_text("utf-8")))


async def test_what_a_process_cannot_be_given_is_refused(app: App) -> None:
    @app.flow(retry=Retry(max_attempts=1))
    async def wrong(flow: Flow) -> int:
        return await flow.step("sum", unnamed, 1, 2, isolate="process")

    async with app.worker():
        with pytest.raises(JobEnded, match=r"cannot be passed by a name of its own"):
            await (await wrong.enqueue()).result(timeout="60s")
