"""After its lease has run out a worker begins neither a handler nor a step."""

import asyncio
import math
from functools import partial
from time import monotonic
from typing import Any

import pytest

from holdfast.flows.step_runner import StepRunner
from holdfast.worker.callers import Threads
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.lease import Lease, NotBegun
from holdfast.worker.processes import Processes
from worker.handler_runs import Run

begun: list[str] = []


def handler() -> None:
    begun.append("handler")


async def step() -> None:
    begun.append("step")


@pytest.fixture(autouse=True)
def nothing_begun() -> None:
    begun.clear()


def run_with(believed_until: float) -> Run:
    run = Run.of(handler)
    run.claimed.lease = Lease(7, believed_until)
    return run


def test_a_lease_is_over_by_the_monotonic_clock() -> None:
    assert not Lease(1, monotonic() + 60).is_over
    assert Lease(1, monotonic()).is_over


async def test_a_thread_that_becomes_free_too_late_does_not_begin_the_handler() -> None:
    threads = JobThreads(1)
    run = run_with(math.inf)
    hold = asyncio.Event()
    loop = asyncio.get_running_loop()
    busy = threads.submit(lambda: asyncio.run_coroutine_threadsafe(hold.wait(), loop).result(20))
    waiting = asyncio.create_task(Threads(threads).call(run.claimed, run.context, {}))
    await asyncio.sleep(0)
    run.claimed.lease.believed_until = monotonic()
    hold.set()
    with pytest.raises(NotBegun, match="could not begin"):
        await waiting
    assert busy.result(20)
    assert begun == []
    threads.close()


async def test_a_child_process_is_not_given_a_call_too_late() -> None:
    async with Processes() as processes:
        run = run_with(monotonic())
        with pytest.raises(NotBegun):
            await run.on(processes)


async def test_a_child_process_that_reads_its_call_too_late_does_not_begin_it() -> None:
    """Its start takes longer than the lease lasts, and the lease is not renewed meanwhile."""
    async with Processes() as processes:
        run = run_with(monotonic() + 0.02)
        with pytest.raises(NotBegun):
            await run.on(processes)


@pytest.mark.parametrize("function", [handler, step])
async def test_no_step_begins_too_late(function: Any) -> None:
    threads = JobThreads(1)
    claimed = run_with(monotonic()).claimed
    with pytest.raises(NotBegun):
        await StepRunner(threads, partial(claimed.check_lease, "begin a step")).run(function, (), {}, None)
    assert begun == []
    threads.close()
