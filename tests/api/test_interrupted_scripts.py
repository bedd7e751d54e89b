"""Ctrl-C in a script that runs a worker says at once what is waited for; a second one does not wait."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.observer import Observer
from support.logs import whole_lines
from support.waiting import block_until

pytestmark = pytest.mark.machine  # programs in processes of their own

HEAD = """
import asyncio, sys, time
from pathlib import Path
from holdfast import App

app = App(sys.argv[1])

@app.job
async def slow() -> None:
    print("slow has begun", flush=True)
    await asyncio.sleep(600)

@app.job(on_success=lambda ctx: print("short has ended", flush=True))
async def short() -> None:
    print("short has begun", flush=True)
    while not Path(sys.argv[2]).exists():
        await asyncio.sleep(0.01)

@app.job
def blocking() -> None:
    print("blocking has begun", flush=True)
    time.sleep(600)
"""
INSIDE = """
async def main() -> None:
    async with app, app.worker(grace="5m"):
        for job in sys.argv[3:]:
            await globals()[job].enqueue()
        await asyncio.Event().wait()

asyncio.run(main())
"""
AFTERWARDS = """
async def main() -> None:
    async with app, app.worker(grace="5m"):
        handles = [await globals()[job].enqueue() for job in sys.argv[3:]]
        while {(await handle.status()).state for handle in handles} != {"running"}:
            await asyncio.sleep(0.01)
    print("the script went on", flush=True)

asyncio.run(main())
"""
PROGRAM = """
async def main() -> None:
    async with app:
        for job in sys.argv[3:]:
            await globals()[job].enqueue()
        await app.run_worker(grace="5m")

asyncio.run(main())
"""
WAITING = "stopping: waiting up to 5m for running jobs"
AGAIN = "press Ctrl-C again to release them at once"


class Script:
    """A process whose output goes to a file."""

    def __init__(self, folder: Path, text: str, dsn: str, *jobs: str) -> None:
        (folder / "script.py").write_text(HEAD + text, "utf-8")
        self._said, self._go = folder / "said", folder / "go"
        with self._said.open("w", encoding="utf-8") as said:
            command = [sys.executable, str(folder / "script.py"), dsn, str(self._go), *jobs]
            self.process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)

    @property
    def said(self) -> str:
        return whole_lines(self._said)

    def until_said(self, text: str) -> None:
        def is_said_or_ended() -> bool:
            return text in self.said or self.process.poll() is not None

        block_until(is_said_or_ended, lambda: self.said, within=20)
        assert text in self.said, self.said

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def let_go(self) -> None:
        self._go.touch()

    def ended(self) -> int:
        return self.process.wait(60)


Start = Callable[..., Script]


@pytest.fixture
def start(tmp_path: Path, dsn: str) -> Iterator[Start]:
    started: list[Script] = []

    def start(text: str, *jobs: str) -> Script:
        started.append(Script(tmp_path, text, dsn, *jobs))
        return started[-1]

    yield start
    for script in started:
        if script.process.poll() is None:
            os.kill(script.process.pid, signal.SIGKILL)
            script.process.wait(60)


def states(observer: Observer) -> list[tuple[Any, ...]]:
    return [(job["kind"], job["state"], job["attempt"]) for job in observer.jobs()]


def test_the_first_one_says_at_once_what_is_waited_for_and_the_second_gives_it_back(
    start: Start, observer: Observer
) -> None:
    script = start(INSIDE, "slow", "slow", "short")
    script.until_said("short has begun")
    script.interrupt()
    script.until_said(WAITING)
    [line] = [line for line in script.said.splitlines() if WAITING in line]
    assert AGAIN in line
    assert line.endswith('jobs=3 kinds="slow (2), short"')
    assert script.process.poll() is None
    script.interrupt()
    assert script.ended() == -signal.SIGINT
    assert states(observer) == [("slow", "ready", 0), ("slow", "ready", 0), ("short", "ready", 0)]
    assert observer.value("select count(*) from holdfast.worker") == 0
    assert "never retrieved" not in script.said


def test_what_ends_meanwhile_has_succeeded(start: Start, observer: Observer) -> None:
    script = start(INSIDE, "short")
    script.until_said("short has begun")
    script.interrupt()
    script.until_said(WAITING)
    script.let_go()
    assert script.ended() == -signal.SIGINT
    assert states(observer) == [("short", "succeeded", 1)]


def test_the_second_ctrl_c_gives_a_plain_function_back(start: Start, observer: Observer) -> None:
    script = start(INSIDE, "blocking")
    script.until_said("blocking has begun")
    script.interrupt()
    script.until_said(WAITING)
    script.interrupt()
    assert script.ended() == -signal.SIGINT
    assert states(observer) == [("blocking", "ready", 0)]


def test_one_that_comes_when_the_block_has_ended_by_itself_gives_back_at_once(
    start: Start, observer: Observer
) -> None:
    script = start(AFTERWARDS, "slow")
    script.until_said("slow has begun")
    script.until_said(WAITING)
    assert "; press Ctrl-C to release them at once" in script.said
    script.interrupt()
    assert script.ended() == -signal.SIGINT
    assert states(observer) == [("slow", "ready", 0)]
    assert "the script went on" not in script.said


def test_a_worker_that_is_the_program_says_what_it_waits_for(start: Start, observer: Observer) -> None:
    script = start(PROGRAM, "slow")
    script.until_said("slow has begun")
    script.interrupt()
    script.until_said(WAITING)
    assert "; a second signal releases them at once" in script.said
    script.interrupt()
    assert script.ended() == 0
    assert states(observer) == [("slow", "ready", 0)]


def test_nothing_is_said_where_nothing_is_waited_for(start: Start, observer: Observer) -> None:
    script = start(INSIDE, "short")
    script.until_said("short has begun")
    script.let_go()
    script.until_said("short has ended")  # the database knows it before its worker does
    script.interrupt()
    assert script.ended() == -signal.SIGINT
    assert states(observer) == [("short", "succeeded", 1)]
    assert WAITING not in script.said
