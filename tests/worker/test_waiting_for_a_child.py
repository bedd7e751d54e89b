"""Calls that are claimed before a child process is free: how many, for how long, and at no cost to them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from holdfast import App, Retry
from holdfast.errors import JobEnded, ProcessDied
from holdfast.worker.claimed_run import Stop
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes import Processes
from holdfast.worker.processes.claims_ahead import ClaimsAhead
from holdfast.worker.processes.places import Places
from storage.interleaving.table_invariants import sound_at_the_end
from support.waiting import until
from worker import handlers_for_processes as handlers
from worker.handler_runs import Run, children, numbers_in


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    async with Processes(Places(1), patience=30) as processes:
        yield processes
    assert children() == []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "started"


async def held(processes: Processes, place: Path) -> tuple[int, "asyncio.Task[None]"]:
    task = Run.of(handlers.hold).begin(processes, started=str(place), until=f"{place}.go")
    [pid] = await numbers_in(place)
    return pid, task


def test_only_short_calls_let_others_wait_for_a_child() -> None:
    told: list[int] = []
    ahead = ClaimsAhead(4, told.append)
    assert ahead.number == 0, "nothing is known of them"
    ahead.took(0.0001)
    assert ahead.number == 0, "too little is known of them"
    for _ in range(90):
        ahead.took(0.0001)
    assert ahead.number == told[-1] == 4 * 64
    for _ in range(100):
        ahead.took(0.02)
    assert ahead.number == 4 * 2
    ahead.took(10)
    assert ahead.number == told[-1] == 0


def test_after_calls_that_waited_too_long_no_other_waits() -> None:
    told: list[int] = []
    ahead = ClaimsAhead(1, told.append)
    for _ in range(100):
        ahead.took(0.0001)
    ahead.were_late()
    assert told[-2:] == [64, 0]


async def test_claims_get_places_ahead_of_children_several_at_a_time_and_none_while_a_step_waits() -> None:
    told = 0

    def tell() -> None:
        nonlocal told
        told += 1

    places = Places(2, tell)
    places.allow_ahead(8)
    assert places.free == 10
    places.take(10)
    assert places.free == 0
    for _ in range(3):
        places.give_back()
    assert (places.free, told) == (0, 0), "a claim for three is not worth it"
    places.give_back()
    assert (places.free, told) == (4, 1)
    step = asyncio.create_task(places.taken())
    await asyncio.sleep(0)
    assert places.free == 0
    for _ in range(4):
        places.give_back()
    assert not step.done(), "as many jobs as children are left"
    places.give_back()
    async with asyncio.timeout(10):
        await step


async def test_a_call_that_is_cancelled_while_it_waits_never_begins(
    processes: Processes, place: Path, tmp_path: Path
) -> None:
    pid, first = await held(processes, place)
    run = Run.of(handlers.hold)
    task = run.begin(processes, started=str(tmp_path / "other"), until=f"{place}.go")
    await asyncio.sleep(0)
    run.tell_to_stop(Stop.CANCEL)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == [pid], "what runs is not killed for it"
    place.with_name(f"{place.name}.go").touch()
    await first
    assert await Run.of(handlers.where).on(processes) == pid
    assert not (tmp_path / "other").exists()


async def test_the_death_of_a_child_is_that_of_the_run_in_it_and_of_no_run_that_waits(
    processes: Processes, place: Path
) -> None:
    pid, first = await held(processes, place)
    run = Run.of(handlers.where)
    second = run.begin(processes)
    await asyncio.sleep(0)
    assert run.claimed.called is None, "its timeout has not begun"
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ProcessDied):
        await first
    assert await second != pid
    assert run.claimed.called is not None


async def test_jobs_behind_one_that_takes_long_are_given_back_with_their_attempts(
    dsn: str, place: Path
) -> None:
    with sound_at_the_end(dsn):
        async with App(dsn) as app:
            add = app.job(isolate="process", retry=Retry(max_attempts=1))(handlers.add)
            hold = app.job(isolate="process", priority=0, retry=Retry(max_attempts=1))(handlers.hold)

            @app.job
            async def nothing() -> None: ...

            async with app.worker(options=WorkerOptions(children=1)):
                quick = [await add.enqueue(n, n) for n in range(60)]
                for job in quick:
                    await job.result(timeout="60s")
                batch = [hold.call(str(place), f"{place}.go"), *(add.call(n, 1) for n in range(10))]
                long, *others = await app.enqueue_many(batch)
                [pid] = await numbers_in(place)
                await until(lambda: states(dsn).get("running") == 1, lambda: f"found {states(dsn)}")
                await (await nothing.enqueue()).result(timeout="60s")
                assert states(dsn) == {"succeeded": 61, "running": 1, "ready": 10}, "none is claimed again"
                os.kill(pid, signal.SIGKILL)
                for number, job in enumerate(others):
                    assert await job.result(timeout="60s") == number + 1
                with pytest.raises(JobEnded, match="SIGKILL"):
                    await long.result(timeout="60s")
    with psycopg.connect(dsn) as connection:
        ends = connection.execute(
            "select outcome, attempt, count(*) from holdfast.ledger group by 1, 2"
        ).fetchall()
    assert set(ends) == {("failed", 1, 1), ("released", 1, 10), ("succeeded", 1, 71)}


def states(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn) as connection:
        return dict(connection.execute("select state, count(*) from holdfast.jobs group by 1").fetchall())
