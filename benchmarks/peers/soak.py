"""Steady state: a producer fills the queue, a worker empties it, finished jobs are pruned after a minute."""

import time
from collections.abc import Iterator
from statistics import mean, median

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.crew import Child, Crew, act
from benchmarks.peers.drain import drained_once
from benchmarks.peers.extent import Extent

_SYSTEM = "holdfast-soak"
_WAITING = 5_000
_WINDOW = 10.0


def soak(bench: Bench, extent: Extent) -> Iterator[Figure]:
    # A drain takes two seconds, in which the machine may be in any mood: several, before it and after.
    drains = _drains(bench, extent)
    rates, resident = _run(bench, extent)
    full = median(drains + _drains(bench, extent))
    steady = mean(rates)
    # The first windows fill caches, and nothing is old enough to be pruned.
    settled = rates[len(rates) // 5 :]
    half = max(len(settled) // 2, 1)
    yield Figure(
        "soak",
        f"steady state for {extent.soak_seconds:g} s with pruning, against the drain",
        steady / full,
        Target("at_least", 0.8, "%"),
        f"{steady:,.0f} against {full:,.0f} jobs/s, with a producer beside it",
    )
    yield Figure(
        "soak",
        "steady state: second half against first",
        mean(settled[half:] or settled) / mean(settled[:half]),
        Target("at_least", 0.95, "%"),
        f"slowest {_WINDOW:g} s: {min(settled):,.0f} jobs/s",
    )
    later = resident[len(resident) // 5 :]
    yield Figure(
        "soak",
        "steady state: memory at the end against the beginning",
        later[-1] / later[0],
        Target("at_most", 1.05, "%"),
        f"{later[0] / 1e6:.1f} MB, then {later[-1] / 1e6:.1f} MB",
    )


def _drains(bench: Bench, extent: Extent) -> list[float]:
    return [
        drained_once(bench, "holdfast", extent.jobs, extent.concurrency).rate for _ in range(extent.rounds)
    ]


def _run(bench: Bench, extent: Extent) -> tuple[list[float], list[int]]:
    """Jobs per second and resident bytes, window by window."""
    window = min(_WINDOW, extent.soak_seconds / 5)
    rates: list[float] = []
    resident: list[int] = []
    with bench.database() as dsn:
        act("prepare", _SYSTEM, dsn)
        with Crew.start(_SYSTEM, dsn, concurrency=extent.concurrency) as crew:
            crew.begin()
            crew.begun()
            lasting = extent.soak_seconds + 30
            with Child.start("flood", _SYSTEM, dsn, crew.path, _WAITING, lasting) as producer:
                producer.tell()
                crew.wait_for(_WAITING, within=60)
                for _ in range(int(extent.soak_seconds / window)):
                    before, began = crew.tally.total, time.monotonic()
                    time.sleep(window)
                    rates.append((crew.tally.total - before) / (time.monotonic() - began))
                    resident.append(crew.children[0].resident_bytes)
                    bench.say(f"soak: {rates[-1]:,.0f} jobs/s, {resident[-1] / 1e6:.1f} MB")
    return rates, resident
