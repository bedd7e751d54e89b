"""Steady state, with a producer and with pruning: beside the sum of its parts, and beside pgqueuer."""

import asyncio
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

import psycopg

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.crew import Child, Crew, act, wait_until_finished
from benchmarks.peers.effort import Effort
from benchmarks.peers.systems import KEPT
from benchmarks.session import SCHEMA
from benchmarks.ways.extent import Extent
from benchmarks.ways.turns import Pair, Ran
from holdfast.postgres.database import Database
from holdfast.storage.session import SETTINGS
from holdfast.worker.chores.job_pruner import JobPruner

WAITING = 5_000
CONCURRENCY = 500

_SYSTEM = "holdfast-pruned"
_PEER = "pgqueuer"
_FINISHED = "select count(*) from holdfast.ledger"


class _Parts(NamedTuple):
    """Microseconds of CPU of one job, program and server."""

    drain: Effort
    bulk: Effort
    prune: Effort

    @property
    def sum(self) -> float:
        return sum(each.both for each in self)

    def __str__(self) -> str:
        return ", ".join(f"{name} {each.show()}" for name, each in self._asdict().items())


def soak(bench: Bench, extent: Extent) -> Iterator[Figure]:
    rounds = []
    for _ in range(extent.long_rounds):
        rounds.append(_parts(bench, extent.soak_jobs))
        bench.say(f"parts of a job: {rounds[-1]} µs")
    parts = sorted(rounds, key=lambda each: each.sum)[len(rounds) // 2]
    ours = _steady(bench, _SYSTEM, extent.soak_seconds)
    yield Figure(
        "soak",
        "steady state with pruning: CPU of a job, against the sum of its parts",
        ours.effort.both / parts.sum,
        Target("at_most", 1.15, "x"),
        f"{ours.effort.both:.0f} against {parts.sum:.0f} µs: {parts}",
    )
    theirs = _steady(bench, _PEER, extent.soak_seconds)
    yield Figure(
        "soak",
        f"steady state with pruning: jobs/s, against {_PEER} without",
        Pair(ours, theirs).ratio,
        Target.informative("x"),
        f"{ours} against {theirs} jobs/s",
    )


def _steady(bench: Bench, system: str, lasting: float) -> Ran:
    """Counted once finished jobs are old enough to be pruned."""
    settling = 2 * KEPT.total_seconds()
    with bench.database() as dsn:
        act("prepare", system, dsn)
        with Crew.start(system, dsn, concurrency=CONCURRENCY) as crew:
            crew.begin()
            crew.begun()
            with Child.start("flood", system, dsn, crew.path, WAITING, settling + lasting + 30) as producer:
                producer.tell()
                crew.wait_for(WAITING, within=60)
                time.sleep(settling)
                pids = [producer.pid, *(child.pid for child in crew.children)]
                at_first, before, began = Effort.so_far(dsn, pids), crew.tally.total, time.monotonic()
                time.sleep(lasting)
                handled, took = crew.tally.total - before, time.monotonic() - began
                ran = Ran(handled / took, Effort.so_far(dsn, pids).since(at_first, handled))
    bench.say(f"{system} in steady state: {ran} jobs/s")
    return ran


def _parts(bench: Bench, jobs: int) -> _Parts:
    with bench.database() as dsn:
        unfinished = act("prepare", _SYSTEM, dsn)
        with Child.start("bulk", _SYSTEM, dsn, jobs) as producer:
            at_first = Effort.so_far(dsn, [producer.pid])
            producer.tell()
            producer.hear()
            bulk = Effort.so_far(dsn, [producer.pid]).since(at_first, jobs + 1)
        drain = _drained(dsn, jobs, unfinished)
        return _Parts(drain, bulk, _pruned(dsn))


def _drained(dsn: str, jobs: int, unfinished: str) -> Effort:
    with Crew.start(_SYSTEM, dsn, concurrency=CONCURRENCY) as crew:
        pids = [child.pid for child in crew.children]
        crew.begin()
        crew.wait_for(jobs // 10, within=60)
        before, at_first = crew.tally.total, Effort.so_far(dsn, pids)
        crew.wait_for(jobs + 1, within=120)
        wait_until_finished(dsn, unfinished)
        return Effort.so_far(dsn, pids).since(at_first, jobs + 1 - before)


def _pruned(dsn: str) -> Effort:
    """All that the worker has not pruned itself, by the leader's own chore and nothing around it."""
    time.sleep(KEPT.total_seconds())
    with psycopg.connect(dsn, autocommit=True) as connection:
        [(number,)] = connection.execute(_FINISHED).fetchall()
        at_first = Effort.so_far(dsn, [os.getpid()])
        asyncio.run(_prune(dsn))
        effort = Effort.so_far(dsn, [os.getpid()]).since(at_first, number)
        [(left,)] = connection.execute(_FINISHED).fetchall()
    if left:
        raise AssertionError(f"{left:,} finished jobs were not pruned")
    return effort


async def _prune(dsn: str) -> None:
    async with Database(dsn, session=SETTINGS) as database:
        pruner = JobPruner(database, SCHEMA)
        while (await pruner.once()).is_more:
            pass
