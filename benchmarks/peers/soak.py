"""Steady state: a producer fills the queue, a worker empties it, finished jobs are pruned after a minute."""

import time
from collections.abc import Iterator
from statistics import mean

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.crew import Child, Crew, act
from benchmarks.peers.extent import Extent

_SYSTEM = "holdfast-soak"
_WAITING = 5_000
_WINDOW = 10.0


def soak(bench: Bench, extent: Extent) -> Iterator[Figure]:
    rates, resident = _run(bench, extent)
    # The first windows fill caches, and nothing is old enough to be pruned.
    settled = rates[len(rates) // 5 :]
    half = max(len(settled) // 2, 1)
    yield Figure(
        "soak",
        "steady state: second half against first",
        mean(settled[half:] or settled) / mean(settled[:half]),
        Target("at_least", 0.95, "%"),
        f"{mean(rates):,.0f} jobs/s in {extent.soak_seconds:g} s, slowest {_WINDOW:g} s {min(settled):,.0f}",
    )
    later = resident[len(resident) // 5 :]
    yield Figure(
        "soak",
        "steady state: memory at the end against the beginning",
        later[-1] / later[0],
        Target("at_most", 1.05, "%"),
        f"{later[0] / 1e6:.1f} MB, then {later[-1] / 1e6:.1f} MB",
    )


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
