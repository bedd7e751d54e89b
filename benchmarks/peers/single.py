"""One job at a time: what an enqueue costs beside the bare insert of a row, how soon it is picked up."""

import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import quantiles

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.peers.crew import Crew, act
from benchmarks.peers.extent import Extent
from benchmarks.peers.systems import PEERS

_RATE = 100
_PRODUCERS = (1, 8, 32)


def single(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """Holdfast and the bare insert in turns: how fast the disk is, changes while it is measured."""
    rates: dict[tuple[str, int], list[float]] = defaultdict(list)
    with bench.database() as dsn:
        for system in ("holdfast", "bare"):
            act("prepare", system, dsn)
        for _ in range(extent.rounds):
            for producers in _PRODUCERS:
                for system in ("holdfast", "bare"):
                    rate = act("single", system, dsn, producers, extent.single_seconds)
                    rates[system, producers].append(rate)
                    bench.say(f"{system}: {rate:,.0f} single enqueues/s with {producers} at once")
    for producers in _PRODUCERS:
        ours, bare = max(rates["holdfast", producers]), max(rates["bare", producers])
        yield Figure(
            "single",
            f"single enqueue, {producers} at once, against one bare INSERT each",
            ours / bare,
            Target("at_least", 0.75, "%"),
            f"{ours:,.0f} against {bare:,.0f} jobs/s",
        )


def latency(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """From the call that enqueues to the first line of the handler, in another process."""
    seen: dict[str, list[tuple[float, float]]] = defaultdict(list)
    systems = ("holdfast", "bare-announced", *PEERS)
    for _ in range(extent.rounds):
        for system in systems:
            seen[system].append(_once(bench, system, extent))
    p50 = {system: min(each[0] for each in seen[system]) for system in systems}
    p99 = {system: min(each[1] for each in seen[system]) for system in systems}
    bare = p50["bare-announced"]
    yield Figure(
        "latency",
        f"pickup at {_RATE} jobs/s: p50, against bare INSERT + NOTIFY + claim",
        p50["holdfast"] / bare,
        Target("at_most", 1.3, "x"),
        f"{p50['holdfast']:.2f} against {bare:.2f} ms",
    )
    for system in PEERS:
        for name, figures in (("p50", p50), ("p99", p99)):
            yield Figure(
                "latency",
                f"pickup at {_RATE} jobs/s: {name}, against {system}",
                figures["holdfast"] / figures[system],
                Target("at_most", 1.0, "x"),
                f"{figures['holdfast']:.2f} against {figures[system]:.2f} ms",
            )


def _once(bench: Bench, system: str, extent: Extent) -> tuple[float, float]:
    """p50 and p99 in milliseconds; the first fifth is warming up."""
    jobs = extent.latency_jobs * 5 // 4
    with bench.database() as dsn:
        act("prepare", system, dsn)
        with Crew.start(system, dsn, concurrency=extent.concurrency) as crew:
            crew.begin()
            crew.begun()
            # Some begin to listen in the background.
            time.sleep(1)
            act("trickle", system, dsn, jobs, _RATE)
            crew.wait_for(jobs, within=60)
            latencies = crew.end()[jobs - extent.latency_jobs :]
    parts = quantiles(latencies, n=100)
    p50, p99 = parts[49] / 1e6, parts[98] / 1e6
    bench.say(f"{system}: picked up after {p50:.2f} ms, p99 {p99:.2f} ms")
    return p50, p99
