"""Limits hold over a fleet whose workers are killed and frozen beyond their lease: by what the handlers noted
outside the database.
"""

import asyncio
import importlib.util
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acceptance.books import Books, Line
from acceptance.workers import WorkerProcess, Workers
from support.waiting import until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(180)]

BATCH = 6
LEASE, FROZEN = 2.0, 3.5
FAST: dict[str, Any] = {"lease": LEASE, "beat": 0.4, "grace": 0.5, "poll": 1, "slots": 10}
RATE, BURST = 25, 4


@dataclass(frozen=True, slots=True)
class Leased:
    """A run as far as limits count it: until its handler was done, or until its lease was taken away. A
    handler that is frozen meanwhile may go on for a moment behind the back of everybody.
    """

    job: int
    claimed: float
    begin: float
    end: float


@pytest.fixture
async def shop(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    found = importlib.util.spec_from_file_location("limited_shop", Path(__file__).parent / "limited_shop.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    async with module.app:
        yield module


def leased(books: Books, jobs: Iterable[int]) -> Iterator[Leased]:
    """What ended well ends in the handler's own words; what was lost, when the ledger says that it was. The
    database's clock is that of this machine.
    """
    to_monotonic = time.monotonic() - time.time()
    ends = {line.run: line.at for line in books.lines("end")}
    ledger: dict[int, tuple[Any, Any, str]] = {
        run: (started_at, finished_at, outcome)
        for run, started_at, finished_at, outcome in books.run(
            "select run, started_at, finished_at, outcome::text from holdfast.ledger"
        )
    }
    wanted = set(jobs)
    begun: list[Line] = [line for line in books.lines("begin") if line.job in wanted]
    assert {line.job for line in begun} == wanted
    for line in begun:
        started_at, finished_at, outcome = ledger[line.run]
        lost_at = finished_at.timestamp() + to_monotonic
        is_done = outcome == "succeeded" and line.run in ends
        end = ends[line.run] if is_done else lost_at
        if line.at < end:
            yield Leased(line.job, started_at.timestamp() + to_monotonic, line.at, end)


def most_at_once(runs: Iterable[Leased]) -> int:
    """Ends before begins at the same moment."""
    steps = sorted(step for run in runs for step in ((run.begin, 1), (run.end, -1)))
    most = inside = 0
    for _, step in steps:
        inside += step
        most = max(most, inside)
    return most


def most_above_rate(claimed: list[float]) -> float:
    """By how many starts more than the burst a window of any length had more than its rate allows."""
    most = 0.0
    lowest = float("inf")
    for number, at in enumerate(sorted(claimed)):
        lowest = min(lowest, number - RATE * at)
        most = max(most, number + 1 - RATE * at - lowest)
    return most


def is_at_work(books: Books, worker: WorkerProcess) -> bool:
    """In the middle of a run, as far as one can see."""
    ended = {line.run for line in books.lines("end")}
    return any(line.run not in ended for line in books.lines("begin", pid=worker.pid))


async def strike(books: Books, workers: Workers, alive: list[WorkerProcess]) -> list[WorkerProcess]:
    """One is frozen beyond its lease, and another one killed and replaced meanwhile: both in a run."""
    frozen, killed, other = alive
    await until(lambda: is_at_work(books, frozen), "it runs something")
    frozen.freeze()
    await asyncio.sleep(FROZEN / 3)
    await until(lambda: is_at_work(books, killed), "it runs something")
    killed.kill()
    new = await workers.start(module="acceptance.limited_shop", **FAST)
    await asyncio.sleep(FROZEN * 2 / 3)
    frozen.thaw()
    return [other, new, frozen]


async def test_no_more_run_at_once_or_start_than_allowed_while_workers_are_killed_and_frozen(
    shop: Any, books: Books, workers: Workers
) -> None:
    alive = [await workers.start(module="acceptance.limited_shop", **FAST) for _ in range(3)]
    keys: dict[str, dict[int, str]] = defaultdict(dict)
    over = asyncio.Event()

    async def produce() -> None:
        while not over.is_set():
            calls = [
                *((shop.charge, f"a{n % 5}") for n in range(BATCH)),
                *((shop.ship, f"p{n % 4}") for n in range(BATCH)),
                *((shop.mail, None) for _ in range(BATCH)),
            ]
            handles = await shop.app.enqueue_many(
                [kind.call(key) if key else kind.call() for kind, key in calls]
            )
            for handle, (kind, key) in zip(handles, calls, strict=True):
                keys[kind.name][handle.id] = key or ""
            await asyncio.sleep(0.4)

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        for _ in range(2):
            alive = await strike(books, workers, alive)
        over.set()
    jobs = sum(map(len, keys.values()))
    await books.all_finished(jobs, within=60)
    for worker in alive:
        await worker.stop()
    books.assert_balanced(jobs)
    outcomes = Counter(name for (name,) in books.run("select outcome::text from holdfast.ledger"))
    assert outcomes["retried"] > 0, "no run was lost: nothing was proved"

    accounts: dict[str, list[Leased]] = defaultdict(list)
    for run in leased(books, keys["charge"]):
        accounts[keys["charge"][run.job]].append(run)
    assert {account: most_at_once(runs) for account, runs in accounts.items()} == dict.fromkeys(accounts, 1)

    shipped = list(leased(books, keys["ship"]))
    assert most_at_once(shipped) == 3
    for place in set(keys["ship"].values()):
        assert most_at_once(run for run in shipped if keys["ship"][run.job] == place) <= 2

    mailed = list(leased(books, keys["mail"]))
    assert most_above_rate([run.claimed for run in mailed]) <= BURST
    late = max(run.begin - run.claimed for run in mailed)  # a handler begins after the claim of its job
    assert most_above_rate([run.begin for run in mailed]) <= BURST + RATE * late

    report = await shop.app.fsck()
    assert report.is_sound, report
