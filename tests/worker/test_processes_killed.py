"""How handlers in child processes are stopped, how deaths are told, and what is left of them: nothing."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.outcome import Failed
from holdfast.errors import ProcessDied
from holdfast.worker.claimed_run import Stop
from holdfast.worker.handler_requests import EndWith
from holdfast.worker.processes import Processes
from support.waiting import until
from worker import handlers_for_processes as handlers
from worker import large_to_import, large_to_import_too
from worker.handler_runs import Run, children, is_alive, numbers_in, run

pytestmark = pytest.mark.machine  # many child processes

MIB = 1024 * 1024


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    async with Processes(grace=0.2) as processes:
        yield processes
    assert children() == []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The file where a handler writes its process id when it begins."""
    return tmp_path / "started"


@pytest.mark.parametrize("function", [handlers.hog_the_interpreter, handlers.ignore_signals])
@pytest.mark.parametrize("reason", [Stop.TIMEOUT, Stop.LOST])
async def test_a_timeout_and_a_lost_lease_really_kill(
    processes: Processes, place: Path, function: Callable[..., Any], reason: Stop
) -> None:
    attempt = Run.of(function)
    task = attempt.begin(processes, started=str(place))
    [pid] = await numbers_in(place)
    attempt.tell_to_stop(reason)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)
    assert children() == []
    assert processes.left_behind(attempt.claimed) is None
    assert await run(processes, handlers.where) != pid


async def test_all_that_a_handler_has_started_is_killed_with_it(processes: Processes, place: Path) -> None:
    attempt = Run.of(handlers.start_others)
    task = attempt.begin(processes, started=str(place))
    family = await numbers_in(place)
    assert all(map(is_alive, family))
    attempt.tell_to_stop(Stop.TIMEOUT)
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(map(is_alive, family)))


async def test_what_a_dead_handler_had_started_is_killed_too(processes: Processes, place: Path) -> None:
    """A fork of the child keeps the connection open, which must not keep the attempt."""
    with pytest.raises(ProcessDied, match="exited with 7"):
        await run(processes, handlers.start_others_and_die, started=str(place))
    family = await numbers_in(place)
    await until(lambda: not any(map(is_alive, family)))


@pytest.mark.parametrize("function", [handlers.wait_until_cancelled, handlers.clean_up_when_cancelled])
async def test_a_handler_that_stops_when_told_to_may_clean_up_and_keeps_its_process(
    processes: Processes, place: Path, function: Callable[..., Any]
) -> None:
    async with Processes(grace=30) as patient:
        attempt = Run.of(function)
        task = attempt.begin(patient, started=str(place))
        [pid] = await numbers_in(place)
        attempt.tell_to_stop(Stop.CANCEL)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert attempt.context.state["cleaned"]
        assert await run(patient, handlers.where) == pid


async def test_a_lease_that_is_lost_during_the_grace_ends_it(place: Path) -> None:
    async with Processes(grace=600) as patient:
        attempt = Run.of(handlers.ignore_signals)
        task = attempt.begin(patient, started=str(place))
        [pid] = await numbers_in(place)
        attempt.tell_to_stop(Stop.SHUTDOWN)
        await asyncio.sleep(0)
        attempt.tell_to_stop(Stop.LOST)
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not is_alive(pid))


async def test_a_run_that_is_stopped_while_its_process_starts_leaves_nothing(processes: Processes) -> None:
    attempt = Run.of(handlers.where)
    task = attempt.begin(processes)
    await asyncio.sleep(0)
    attempt.tell_to_stop(Stop.LOST)
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: children() == [])


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (handlers.leave, {"code": 3}, "its process exited with 3 before"),
        (handlers.leave_politely, {"code": 4}, "its process exited with 4 before"),
        (
            handlers.shoot,
            {"number": signal.SIGKILL},
            r"killed by signal 9 \(SIGKILL\), such as by the kernel",
        ),
        (handlers.shoot, {"number": signal.SIGABRT}, r"killed by signal 6 \(SIGABRT\) before"),
        (handlers.crash, {}, r"killed by signal 11 \(SIGSEGV\) before"),
    ],
)
async def test_a_death_is_a_failed_attempt_that_says_how(
    processes: Processes, function: Callable[..., Any], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ProcessDied, match=message) as caught:
        await run(processes, function, **arguments)
    assert caught.value.holdfast_code == "process_died"
    assert await run(processes, handlers.add, left=1, right=1) == 2


async def test_a_handler_that_closes_the_connection_has_killed_its_process(processes: Processes) -> None:
    with pytest.raises(ProcessDied, match="SIGKILL"):
        await run(processes, handlers.close_everything)


async def test_a_child_that_died_while_idle_costs_no_attempt(processes: Processes) -> None:
    first = await run(processes, handlers.where)
    os.kill(first, signal.SIGSTOP)  # so that the call meets a child that still looks alive
    call = Run.of(handlers.where).begin(processes)
    await asyncio.sleep(0)
    os.kill(first, signal.SIGKILL)
    assert await call != first


async def test_a_memory_limit_that_is_too_small_says_so(processes: Processes) -> None:
    with pytest.raises(EndWith) as raised:
        await Run.of(handlers.where, memory_limit=20 * MIB).on(processes)
    outcome = raised.value.outcome
    assert isinstance(outcome, Failed)
    assert not outcome.is_retryable, "the next attempt would only meet the same"
    assert (outcome.failure.type, outcome.failure.code) == ("holdfast.errors.InvalidInput", "handler_error")
    told = re.fullmatch(
        r"memory_limit is 20 MiB, but a child process takes (\d+) MiB of addresses before it imports the "
        r"handler's module, and (\d+) MiB then: write more, such as memory_limit=(\d+) \* 2\*\*20",
        outcome.failure.message,
    )
    assert told, outcome.failure.message
    bare, imported, enough = map(int, told.groups())
    assert 20 < bare <= imported < enough
    assert await Run.of(handlers.where, memory_limit=enough * MIB).on(processes)


async def test_what_other_kinds_have_imported_in_a_child_does_not_make_a_limit_too_small(
    processes: Processes,
) -> None:
    first = await Run.of(large_to_import.where, memory_limit=500 * MIB).on(processes)
    second = await Run.of(large_to_import_too.where, memory_limit=500 * MIB).on(processes)
    assert first != second


async def test_too_much_memory_is_a_failed_attempt_and_the_process_is_replaced(processes: Processes) -> None:
    first = await Run.of(handlers.where, memory_limit=512 * MIB).on(processes)
    assert await Run.of(handlers.take, memory_limit=512 * MIB).on(processes, size=100 * MIB) == 100 * MIB
    assert await Run.of(handlers.where, memory_limit=512 * MIB).on(processes) == first
    with pytest.raises(MemoryError):
        await Run.of(handlers.take, memory_limit=512 * MIB).on(processes, size=600 * MIB)
    with pytest.raises(MemoryError):
        await Run.of(handlers.take_bit_by_bit, memory_limit=512 * MIB).on(processes)
    second = await Run.of(handlers.where, memory_limit=512 * MIB).on(processes)
    assert second != first


async def test_a_limit_holds_only_for_the_kinds_that_have_it(processes: Processes) -> None:
    limited = await Run.of(handlers.where, memory_limit=512 * MIB).on(processes)
    assert await run(processes, handlers.where) != limited
    assert await run(processes, handlers.take, size=600 * MIB) == 600 * MIB


async def test_a_child_is_out_of_reach_of_the_terminal_and_leaves_signals_to_the_worker(
    processes: Processes,
) -> None:
    pid, group, session = await run(processes, handlers.parent_and_group)
    assert pid == group == session
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
        assert await run(processes, handlers.where) == pid
    assert await run(processes, handlers.terminate_a_fork) == -signal.SIGTERM


async def test_a_child_that_cannot_be_started_fails_the_attempt(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(FileNotFoundError) as caught:
            await run(processes, handlers.where)
    assert "could not be started" in caught.value.__notes__[0]
    assert await run(processes, handlers.where)


async def test_leaving_kills_what_is_still_running(place: Path) -> None:
    async with Processes() as processes:
        await run(processes, handlers.where)
        task = Run.of(handlers.ignore_signals).begin(processes, started=str(place))
        await numbers_in(place)
    assert children() == []
    with pytest.raises(ProcessDied):
        await task


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_worker_that_is_cancelled_in_a_hurry_leaves_nothing(times: int) -> None:
    async def work() -> None:
        async with Processes() as processes:
            await run(processes, handlers.where)

    worker = asyncio.create_task(work())
    await until(lambda: children() != [])
    for _ in range(times):
        worker.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert children() == []


# With threads, as every worker has: Linux ends them one by one, and the files that they share with the last.
WORKER = """
import asyncio, os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from holdfast.worker.processes import Processes
from worker import handlers_for_processes as handlers
from worker.handler_runs import Run

async def main():
    async with Processes() as processes, asyncio.TaskGroup() as group:
        for place in sys.argv[3:]:
            group.create_task(Run.of(getattr(handlers, sys.argv[2])).on(processes, started=place))
        await asyncio.to_thread(after_they_began)

def after_they_began():
    while not all(map(os.path.exists, sys.argv[3:])):
        time.sleep(0.01)
    print(os.fork() or signal.pause() if fork else 0, flush=True)

fork = False
for _ in range(8):
    threading.Thread(target=time.sleep, args=[600], daemon=True).start()
asyncio.run(main())
"""


async def families_of_a_killed_worker(code: str, name: str, places: list[Path]) -> tuple[list[int], int]:
    """The processes that handlers have written down, and its own fork, after the death of a worker."""
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", code, tests, name, *map(str, places)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:  # noqa: ASYNC220  # takes a millisecond
        try:
            assert worker.stdout
            async with asyncio.timeout(60):
                fork = int(await asyncio.to_thread(worker.stdout.readline))
            family = [pid for place in places for pid in await numbers_in(place)]
            assert all(map(is_alive, family))
        finally:
            worker.kill()
    return family, fork


@pytest.mark.parametrize("name", ["hog_the_interpreter", "ignore_signals", "start_others"])
async def test_children_do_not_outlive_a_worker_that_is_killed(name: str, tmp_path: Path) -> None:
    places = [tmp_path / f"started-{number}" for number in range(3)]
    family, _ = await families_of_a_killed_worker(WORKER, name, places)
    await until(lambda: not any(map(is_alive, family)))


@pytest.mark.parametrize("name", ["hog_the_interpreter", "start_others"])
async def test_a_fork_of_the_worker_that_lives_on_keeps_no_child_alive(name: str, place: Path) -> None:
    """Such as one of multiprocessing, which has all of the worker's files."""
    forking = WORKER.replace("fork = False", "fork = True")
    family, fork = await families_of_a_killed_worker(forking, name, [place])
    try:
        assert is_alive(fork)
        await until(lambda: not any(map(is_alive, family)))
    finally:
        os.kill(fork, signal.SIGKILL)
